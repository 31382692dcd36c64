package plays

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

var (
	soakFor  = flag.Duration("soak.duration", 2*time.Minute, "how long agents call in the long form of TestSoak")
	soakRate = flag.Float64("soak.rate", 30, "how many calls the agents of TestSoak make each second, together")
	soakSeed = flag.Uint64("soak.seed", 1, "the order of what TestSoak breaks, and of what its agents do")
)

const soakAgents = 24

// TestSoak lets agents call at a steady rate while everything around the sidecar breaks, in an order drawn from a seed.
// In the end no process has grown or raced, and the record agrees with the upstream's own log.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := newAccounted(t, soakRules)
	samples := s.sample(t)
	rest := samples.wait(t, "serve")

	ctx, cancel := context.WithCancel(t.Context())
	if kit.Long() {
		ctx, cancel = context.WithTimeout(t.Context(), *soakFor)
	}
	defer cancel()
	var running sync.WaitGroup
	for i := range soakAgents {
		running.Go(func() { s.newAgent(t, i).run(ctx) })
	}
	running.Go(func() {
		defer cancel()
		s.breakThings(ctx, t)
	})
	running.Wait()
	measured := samples.stop()

	s.comesToRest(t, rest)
	s.end(t)
	total := s.agree(t)
	s.report(t, measured, total)
}

func (s *soak) report(t *testing.T, measured map[string][]sample, total tally) {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "| process | measure | first tenth | last tenth | most |\n|---|---|---|---|---|\n")
	for _, process := range kit.Processes {
		list := sinceItsStart(measured[process])
		if kit.Long() && len(list) < 10 {
			t.Errorf("%s: only %d samples", process, len(list))
		}
		if len(list) == 0 {
			continue
		}
		for _, m := range measures {
			first, last, most := ends(list, m.of)
			fmt.Fprintf(w, "| %s | %s | %.0f | %.0f | %.0f |\n", process, m.name, first, last, most)
			if kit.Long() && last > first*m.factor+m.more {
				t.Errorf("%s: %s grew from %.0f to %.0f", process, m.name, first, last)
			}
		}
	}
	_ = w.Flush()
	fmt.Fprintf(&b, "\n%s at %g calls/s, seed %d, %d CPUs, %d agents.\n%s", *soakFor, *soakRate, *soakSeed,
		runtime.NumCPU(), soakAgents, s.outcomes(total))
	t.Log("\n" + b.String())
}

const (
	idleMore = 8 // goroutines of idle connections, and the connections' descriptors
	// descriptors: SQLite closes those of its file, one a reader, only with the last of them, and two readers wait with
	// the WAL open
	readersMore = 8 + 2
)

// comesToRest waits until the idle sidecar holds no more than before its first call. It keeps an idle connection to an
// upstream for a minute and a half.
func (s *soak) comesToRest(t *testing.T, before sample) {
	t.Helper()
	s.stopUpstream()
	for _, name := range []string{"control", "trigger", "reputation"} {
		s.kill(t, name)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s It holds:\n%s\nIt does:\n%s", s.atRest, s.descriptors("serve"), s.stacks("serve"))
		}
	}()
	kit.Until(t, "the sidecar's rest", func() bool {
		now, err := s.measure("serve")
		if err != nil {
			return false
		}
		s.atRest = fmt.Sprintf(
			"At rest the sidecar has %.0f goroutines and %.0f descriptors; before the first call it had %.0f and %.0f.",
			now.goroutines, now.descriptors, before.goroutines, before.descriptors)
		return now.goroutines <= before.goroutines+idleMore && now.descriptors <= before.descriptors+idleMore+readersMore
	})
}

func (s *soak) descriptors(name string) string {
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Process(name).Cmd.Process.Pid))
	for i, fd := range open {
		to, _ := os.Readlink(fd) // it may be closed by now
		open[i] = to
	}
	slices.Sort(open)
	return strings.Join(open, "\n") + fmt.Sprintf("\n%d, %v", len(open), err)
}

func (s *soak) stacks(name string) string {
	p := s.Process(name)
	if err := p.Cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err.Error()
	}
	<-p.Done
	log, err := os.ReadFile(filepath.Join(s.Dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	_, stacks, _ := strings.Cut(string(log), "SIGQUIT")
	return stacks
}

func (s *soak) quiet(t *testing.T, name string) {
	t.Helper()
	log, err := os.ReadFile(s.In(name + ".log"))
	if err != nil {
		t.Error(err)
	}
	if _, report, raced := strings.Cut(string(log), "WARNING: DATA RACE"); raced {
		t.Errorf("%s raced: %.4000s", name, report)
	}
}

type tally struct {
	records, posts, sent int
	states               map[ledger.State]int
}

// agree compares the record with the agents' answers and the upstream's log. Opening the ledger settles an intent whose
// outcome could not be written.
func (s *soak) agree(t *testing.T) tally {
	t.Helper()
	store, err := sqlite.Open(t.Context(), s.In("state/ledger.db"), sqlite.Options{Now: time.Now})
	check.Must(t, err)
	defer store.Close()
	total := tally{states: make(map[ledger.State]int)}
	byPath, byID := make(map[string]int), make(map[string]ledger.State)
	for p, err := range store.Records(t.Context(), ledger.Query{}) {
		check.Must(t, err)
		total.records++
		byPath[p.Path]++
		byID[p.ID] = p.State
		if p.Flow == "post" {
			total.posts++
			total.states[p.State]++
			s.agreePost(t, p)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, keys := range s.sent {
		total.sent++
		if len(keys) != 1 || byPath[path] != 1 {
			t.Errorf("%s arrived %d times and has %d records", path, len(keys), byPath[path])
		}
	}
	for _, a := range s.answers {
		state, kept := byID[a.post]
		switch {
		case a.code == "ledger_unavailable" || a.unledgered:
		case a.post != "" && !kept:
			t.Errorf("%s was answered %d %s, and its record %s is not there", a.path, a.status, a.code, a.post)
		case a.post == "" && a.code == "overloaded" && byPath[a.path] == 0: // above the bound on records of refused calls
		case byPath[a.path] < 1 || byPath[a.path] > 1 && !a.again:
			t.Errorf("%s was answered %d %s, and has %d records", a.path, a.status, a.code, byPath[a.path])
		case a.post != "" && a.code == "" && state != ledger.StateForwarded:
			t.Errorf("%s was answered %d, and its record says %s", a.path, a.status, state)
		}
	}
	return total
}

func (s *soak) agreePost(t *testing.T, p ledger.Record) {
	t.Helper()
	s.mu.Lock()
	keys := s.sent[p.Path]
	s.mu.Unlock()
	most, least := 1, 0
	switch p.State {
	case ledger.StateForwarded:
		least = 1
	case ledger.StateIndeterminate:
	default:
		most = 0
	}
	if len(keys) < least || len(keys) > most || len(keys) == 1 && keys[0] != p.CapabilityID {
		t.Errorf("%s of %s is %s (%s) and arrived with the keys %q; its own is %s", p.ID, p.Path, p.State,
			cmp.Or(p.Code, "no code"), keys, p.CapabilityID)
	}
}

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
	client, base := endpoint.Client(config.Peer{Unix: socket}, nil)
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
