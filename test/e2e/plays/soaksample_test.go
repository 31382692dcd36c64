package plays

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/test/e2e/kit"
)

type sample struct {
	started, goroutines, descriptors float64
}

// measures are the compared values, with the bound on the median of the last tenth by that of the first: a factor, and
// units on top, for what is in flight depends on what is broken at the time. comesToRest finds what is held for good.
var measures = []struct {
	name         string
	of           func(sample) float64
	factor, more float64
}{
	{"goroutines", func(s sample) float64 { return s.goroutines }, 1.2, 10 * soakAgents},
	{"descriptors", func(s sample) float64 { return s.descriptors }, 1.2, 4 * soakAgents},
}

func ends(list []sample, of func(sample) float64) (first, last, most float64) {
	values := make([]float64, len(list))
	for i := range list {
		values[i] = of(list[i])
	}
	tenth := max(1, len(values)/10)
	most = slices.Max(values)
	return median(values[:tenth]), median(values[len(values)-tenth:]), most
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// sinceItsStart returns the samples since a process's last start, without the first tenth, in which it warms up.
func sinceItsStart(list []sample) []sample {
	if len(list) == 0 {
		return nil
	}
	last := list[len(list)-1].started
	list = slices.DeleteFunc(slices.Clone(list), func(s sample) bool { return s.started != last })
	return list[len(list)/10:]
}

type sampler struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex // guards seen
	seen map[string][]sample
}

func (s *soak) sample(t *testing.T) *sampler {
	ctx, cancel := context.WithCancel(t.Context())
	all := &sampler{cancel: cancel, seen: make(map[string][]sample)}
	for _, name := range kit.Processes {
		all.running.Go(func() {
			for pause(ctx, time.Second) {
				got, err := s.measure(name)
				if err != nil { // it is frozen, or being started
					continue
				}
				all.add(name, got)
			}
		})
	}
	return all
}

func (a *sampler) add(name string, got sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[name] = append(a.seen[name], got)
}

func (a *sampler) wait(t *testing.T, name string) (first sample) {
	t.Helper()
	kit.Until(t, "a sample of "+name, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.seen[name]) == 0 {
			return false
		}
		first = a.seen[name][0]
		return true
	})
	return first
}

func (a *sampler) stop() map[string][]sample {
	a.cancel()
	a.running.Wait()
	return a.seen
}

func (s *soak) measure(name string) (sample, error) { return measureOf(s.Stack.Socket(name)) }

func measureOf(socket string) (out sample, err error) {
	client, base := daemon.Client(config.Endpoint{Unix: socket})
	defer client.CloseIdleConnections()
	client.Timeout = kit.Patience
	resp, err := client.Get(base + "/metrics")
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("%s", resp.Status)
	}
	values := make(map[string]float64)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	out = sample{values["process_start_time_seconds"], values["go_goroutines"], values["process_open_fds"]}
	if out.started == 0 || out.goroutines == 0 || out.descriptors == 0 {
		return out, fmt.Errorf("%s exports %+v", socket, out)
	}
	return out, nil
}
