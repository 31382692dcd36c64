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

// sample is what a process says of itself at one moment.
type sample struct {
	started, goroutines, descriptors float64
}

// sampleMeasures are the compared values.
var sampleMeasures = []measure{
	{"goroutines", "go_goroutines", func(s *sample) *float64 { return &s.goroutines }},
	{"descriptors", "process_open_fds", func(s *sample) *float64 { return &s.descriptors }},
}

type measure struct {
	name, metric string
	of           func(*sample) *float64
}

// ends returns the medians of the first and the last tenth, and the maximum.
func (m measure) ends(list []sample) (first, last, most float64) {
	values := make([]float64, len(list))
	for i := range list {
		values[i] = *m.of(&list[i])
	}
	tenth := max(1, len(values)/10)
	most = slices.Max(values)
	return median(values[:tenth]), median(values[len(values)-tenth:]), most
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
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

// sampler samples each process once a second.
type sampler struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex // guards seen
	seen map[string][]sample
}

func (s *soak) sample(t *testing.T) *sampler {
	ctx, cancel := context.WithCancel(t.Context())
	all := &sampler{cancel: cancel, seen: make(map[string][]sample)}
	for _, name := range soakProcesses {
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

// wait returns the first sample of a process.
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

// measureOf reads the metrics of a process, which may be frozen.
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
	out.started = values["process_start_time_seconds"]
	for _, m := range sampleMeasures {
		v, ok := values[m.metric]
		if !ok {
			return out, fmt.Errorf("%s has no %s", socket, m.metric)
		}
		*m.of(&out) = v
	}
	return out, nil
}
