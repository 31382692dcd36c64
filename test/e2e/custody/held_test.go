package custody

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// reads are the calls of an agent that reads all the time.
type reads struct {
	mu      sync.Mutex // guards the rest
	n       int
	slowest time.Duration
	failed  []kit.Outcome
}

// keepReading reads until ctx ends.
func (r *reads) keepReading(ctx context.Context, a kit.Agent) {
	for ctx.Err() == nil {
		o := a.Read()
		r.mu.Lock()
		r.n++
		r.slowest = max(r.slowest, o.Took)
		if o.Code != "" {
			r.failed = append(r.failed, o)
		}
		r.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

// take returns the reads since the last time.
func (r *reads) take() (n int, slowest time.Duration, failed []kit.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, slowest, failed = r.n, r.slowest, r.failed
	r.n, r.slowest, r.failed = 0, 0, nil
	return n, slowest, failed
}

// held counts the open descriptors of each process, in the stack's order, and the sidecar's goroutines.
type held struct {
	files      []int // of each process
	goroutines int
}

func (h held) within(o held, slack int) bool {
	for i := range h.files {
		if h.files[i] > o.files[i]+slack {
			return false
		}
	}
	return h.goroutines <= o.goroutines+slack
}

func (h held) String() string {
	return fmt.Sprintf("%d, %d", h.files, h.goroutines)
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

func (v *vaultRig) held(t *testing.T) held {
	t.Helper()
	var h held
	for _, p := range v.Stack.Processes {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
		check.Must(t, err)
		h.files = append(h.files, len(files))
	}
	found := goroutines.FindStringSubmatch(kit.Metrics(t, v.Stack.Socket("serve")))
	if found == nil {
		t.Fatal("the metrics do not say how many goroutines there are")
	}
	var err error
	h.goroutines, err = strconv.Atoi(found[1])
	check.Must(t, err)
	return h
}

// crowd is the number of simultaneous posts.
const crowd = 8

func atOnce(n int, post func() kit.Outcome) []kit.Outcome {
	out := make([]kit.Outcome, n)
	var wait sync.WaitGroup
	for i := range out {
		wait.Go(func() { out[i] = post() })
	}
	wait.Wait()
	return out
}
