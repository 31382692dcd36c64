package ledgertest

import (
	"syscall"
	"testing"
	"time"
)

// CPU begins to count the processor time of this process; stop reports it as cpu-ns/op. Elapsed time is the disk's and the
// neighbours' as well; this is what a call costs.
func CPU(b *testing.B) (stop func()) {
	b.Helper()
	before := used(b)
	return func() { b.ReportMetric(float64((used(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}

func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
