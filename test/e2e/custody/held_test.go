package custody

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/e2e/kit"
)

type reads struct {
	mu      sync.Mutex // guards the rest
	n       int
	slowest time.Duration
	failed  []kit.Outcome
}

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

func (r *reads) take() (n int, slowest time.Duration, failed []kit.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, slowest, failed = r.n, r.slowest, r.failed
	r.n, r.slowest, r.failed = 0, 0, nil
	return n, slowest, failed
}

type held []float64

func (h held) within(before held, slack float64) bool {
	for i := range h {
		if h[i] > before[i]+slack {
			return false
		}
	}
	return true
}

var heldGauges = regexp.MustCompile(`(?m)^(go_goroutines|process_open_fds) (\d+)$`)

func (v *vaultRig) held(t *testing.T) (h held) {
	t.Helper()
	for _, p := range v.Stack.Processes {
		for _, found := range heldGauges.FindAllStringSubmatch(kit.Metrics(t, v.Stack.Socket(p.Name)), -1) {
			if n, err := strconv.ParseFloat(found[2], 64); err == nil && (found[1] == "process_open_fds" || p.Name == "serve") {
				h = append(h, n)
			}
		}
	}
	if len(h) != 1+len(v.Stack.Processes) {
		t.Fatalf("the metrics say only %v", h)
	}
	return h
}

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
