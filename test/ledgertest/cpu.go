package ledgertest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
)

// CPU counts the processor time and the file writes of this process; stop reports them as cpu-ns/op and written-B/op.
// Elapsed time would also measure the disk and other processes.
func CPU(b *testing.B) (stop func()) {
	b.Helper()
	time, bytes := Used(b), written(b)
	return func() {
		b.ReportMetric(float64((Used(b)-time).Nanoseconds())/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(written(b)-bytes)/float64(b.N), "written-B/op")
	}
}

// Used returns the processor time that this process has used.
func Used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	check.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func written(b *testing.B) (bytes int64) {
	b.Helper()
	raw, err := os.ReadFile("/proc/self/io")
	check.Must(b, err)
	var read int64
	if _, err := fmt.Sscanf(string(raw), "rchar: %d\nwchar: %d\n", &read, &bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}
