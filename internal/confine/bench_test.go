package confine_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/actionproof/mediator/internal/confine"
)

// BenchmarkCalls compares the processor time of system calls with the filter and without: of one that is allowed by its number alone, which
// the kernel remembers, and of one whose arguments the filter looks at each time (mmap, refused by the kernel as it is empty).
func BenchmarkCalls(b *testing.B) {
	measure := func(l confine.Limits) map[string]float64 {
		raw, err := json.Marshal(order{Confine: &l, Calls: b.N})
		if err != nil {
			b.Fatal(err)
		}
		out, err := exec.Command(os.Args[0], "child", string(raw)).Output()
		if err != nil {
			b.Fatal(err)
		}
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
