package confine_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/test/check"
)

// BenchmarkCalls compares the processor time of system calls with and without the filter: a call that is allowed by
// number, which the kernel remembers, and one whose arguments the filter reads each time (an empty mmap).
func BenchmarkCalls(b *testing.B) {
	measure := func(l confine.Limits) map[string]float64 {
		raw, err := json.Marshal(order{Confine: &l, Calls: b.N})
		check.Must(b, err)
		out, err := exec.Command(os.Args[0], "child", string(raw)).Output()
		check.Must(b, err)
		var a answer
		if err := json.Unmarshal(out, &a); err != nil || a.Refused != "" {
			b.Fatal(err, a.Refused)
		}
		return a.Cost
	}
	free := measure(confine.Limits{Landlock: confine.Off, Seccomp: confine.Off})
	held := measure(confine.Limits{Landlock: confine.Off})
	for name := range free {
		b.ReportMetric(held[name]/free[name], name+"-ratio")
		b.ReportMetric(held[name]-free[name], name+"-more-ns")
	}
}
