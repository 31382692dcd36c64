package observe_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

// deep makes a chain of processes, each the child and the debuggee of the one before.
const deep = `
import ctypes, os, time
trace = ctypes.CDLL(None).ptrace
for i in range(300):
    if os.fork():
        while True: time.sleep(1000)
    trace(0, 0, 0, 0)
print("ready", flush=True)
while True: time.sleep(1000)
`

// TestDeepChain observes an agent with a deep chain of processes. All sessions share an observation, so its reads must
// not grow with the depth.
func TestDeepChain(t *testing.T) {
	l, _ := isolated(t, "/usr/bin/python3", "-c", deep)
	run := watcher().Begin("evt_1", l)
	all, err := filepath.Glob("/proc/[0-9]*")
	check.Must(t, err)
	before := reads(t)
	report, err := run.Look(t.Context())
	if err != nil || len(report.Found) > 0 || !report.Covered(look.Debugger) {
		t.Errorf("%+v, %v", report, err)
	}
	if n := reads(t) - before; n > 50*len(all) {
		t.Errorf("a look at %d processes took %d reads", len(all), n)
	}
}

// reads returns the number of this process's reads.
func reads(t *testing.T) (n int) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/io")
	check.Must(t, err)
	for line := range strings.Lines(string(raw)) {
		if count, ok := strings.CutPrefix(line, "syscr: "); ok {
			n, err = strconv.Atoi(strings.TrimSpace(count))
			check.Must(t, err)
		}
	}
	return n
}
