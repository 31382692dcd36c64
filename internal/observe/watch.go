package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/look"
)

// Period is the time between observations of runs. A process that starts and ends between two of them is not seen.
const Period = 500 * time.Millisecond

// maxGap is the longest gap between two observations that still covers a run. A stopped or starved process observes
// nothing.
const maxGap = 10 * Period

// Watcher observes the processes of runs. It is safe for concurrent use.
type Watcher struct {
	proc  *processes
	blind error   // why it can observe nothing
	user  *uint32 // the agent's user; nil if it is not configured
	now   func() time.Time
	found func(*Run, look.Finding)

	begun chan struct{} // has room for one: a run has begun

	mu   sync.Mutex    // guards the two fields below
	runs []*Run        // runs whose launcher was still running
	next chan struct{} // closed by the next observation, which its callers share; nil without a caller

	looking sync.Mutex // held during an observation
}

// NewWatcher makes a Watcher on /proc. user is the agent's user: beside a run that is not isolated, its other processes
// are strangers. now is the clock. The Watcher calls found once for each finding of a run.
func NewWatcher(user *uint32, now func() time.Time, found func(*Run, look.Finding)) *Watcher {
	return newWatch("/proc", user, now, found)
}

// UseLooker makes the Watcher ask the looker process, so that this process needs no right to trace others. Call it
// before Begin.
func (w *Watcher) UseLooker(l *LookerClient) {
	if w.proc != nil {
		w.proc.looker = l
	}
}

func newWatch(path string, user *uint32, now func() time.Time, found func(*Run, look.Finding)) *Watcher {
	w := &Watcher{user: user, now: now, found: found, begun: make(chan struct{}, 1)}
	w.proc, w.blind = openProcesses(path)
	return w
}

// Begin starts to observe the run of a launcher, from which the agent and everything that it starts descend. Only root
// can put a process into an isolated run. In any other run, the absence of findings proves nothing.
func (w *Watcher) Begin(name string, l Launch) *Run {
	r := &Run{Name: name, watch: w, found: make(map[string]look.Finding), unseen: make(map[string]string)}
	if err := w.begin(r, l); err != nil {
		r.miss(err.Error(), look.Kinds()...)
		return r
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, r)
	every.Signal(w.begun)
	return r
}

func (w *Watcher) begin(r *Run, l Launch) error {
	switch {
	case w.blind != nil:
		return w.blind
	case l.PID <= 0:
		return errors.New("its launcher is in another process namespace")
	case w.user != nil && l.UID == *w.user:
		return errors.New("its launcher runs as the agent's own user")
	}
	r.looked = w.now()
	all, err := w.proc.readAll()
	if err != nil {
		return err
	}
	launcher, ok := all[l.PID]
	if !ok {
		return errors.New("its launcher cannot be seen")
	}
	r.launcher, r.root, r.first = launcher, launcher, make(map[id]bool)
	for _, q := range all {
		if q.parent == 0 {
			r.first[q.id] = true
		}
	}
	if r.own, err = w.proc.isolated(l, launcher, all); err != nil {
		r.own = nil
		r.miss(err.Error(), look.Kinds()...)
		return nil
	}
	r.root = all[l.Init]
	r.miss("a process of it can be handed a terminal from outside over a socket", look.Terminal, look.Stdin)
	return nil
}

// Run observes all runs every [Period] until ctx ends. It rests while there is none.
func (w *Watcher) Run(ctx context.Context) {
	for range every.Tick(ctx, Period) {
		if w.rests() {
			select {
			case <-ctx.Done():
				return
			case <-w.begun:
			}
		}
		_ = w.Look(ctx) // fails only when ctx ends
	}
}

func (w *Watcher) rests() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs) == 0
}

// Look observes all runs. Callers share an observation that starts after their call. The runs record a failed
// observation; Look fails only when ctx ends.
func (w *Watcher) Look(ctx context.Context) error {
	w.mu.Lock()
	if len(w.runs) == 0 {
		w.mu.Unlock()
		return nil
	}
	done := w.next
	if done == nil {
		done = make(chan struct{})
		w.next = done
		go w.take(done)
	}
	w.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take waits for the running observation and makes the next one.
func (w *Watcher) take(done chan struct{}) {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.mu.Lock()
	w.next = nil
	w.mu.Unlock()
	w.look()
	close(done)
}

// look observes every process once. It reads the runs after the processes: the processes of a run that has just begun
// then find their run.
func (w *Watcher) look() {
	now := w.now()
	all, err := w.proc.readAll()
	runs := w.launched()
	for _, r := range runs {
		if gap := now.Sub(r.looked); gap > maxGap {
			w.miss([]*Run{r}, fmt.Errorf("there was no observation for %s", gap.Round(time.Second)))
		}
		r.looked = now
	}
	if err != nil {
		w.miss(runs, err)
		return
	}
	first := make(roots)
	for _, r := range runs {
		first[r.root.id] = append(first[r.root.id], r)
	}
	parent := func(pid int) (process, error) {
		if p, ok := all[pid]; ok {
			return p, nil
		}
		return process{}, errGone
	}
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		q := all[pid]
		if q.ended || q.kernel {
			continue
		}
		if own, _ := first.of(q, parent); own != nil {
			threads, err := w.proc.statuses(q)
			w.miss(own, err)
			w.lookAt(q, threads, first, own)
			continue
		}
		// Outside a run, a living first thread is enough: only a privileged process has threads of different users.
		if !q.headless {
			q.threads = 1
		}
		threads, err := w.proc.statuses(q)
		w.miss(runs, err)
		if reached := w.reached(q, threads, runs); len(reached) > 0 {
			w.lookAtOther(q, threads, first, reached)
		}
	}
}

// launched returns the runs whose launcher still runs. It records the end of the other launchers, and forgets their
// runs.
func (w *Watcher) launched() []*Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = slices.DeleteFunc(w.runs, func(r *Run) bool {
		q, err := w.proc.read(r.launcher.pid)
		w.miss([]*Run{r}, err)
		if err != nil && !errors.Is(err, errGone) || err == nil && q.id == r.launcher.id && !q.ended {
			return false
		}
		if !r.over() {
			w.find([]*Run{r}, look.Launcher, r.launcher)
		}
		return true
	})
	return slices.Clone(w.runs)
}

func (w *Watcher) lookAt(q process, threads []status, first roots, own []*Run) {
	for _, r := range own {
		if r.own != nil && r.own.adopted(threads) {
			w.find([]*Run{r}, look.Stranger, q)
		}
	}
	w.lookForDebugger(q, threads, first, own)
	root := own[0].root
	if q.id == root.id || q.forked && q.parent == root.pid && q.session == root.session {
		return // the launcher, or its child before it executes the agent, both with the operator's terminal
	}
	w.lookForTerminal(q, threads, own)
}

// reached returns the runs that a process outside can reach: an isolated run that it has entered; any other run if it
// has the agent's user, or entered this process namespace after the run began.
func (w *Watcher) reached(q process, threads []status, runs []*Run) []*Run {
	agents := slices.ContainsFunc(threads, func(s status) bool {
		return w.user != nil && slices.Contains(s.users, *w.user)
	})
	return slices.DeleteFunc(slices.Clone(runs), func(r *Run) bool {
		if r.own == nil {
			return !agents && (q.parent != 0 || r.first[q.id])
		}
		entered, err := r.own.entered(w.proc, q, threads)
		w.miss([]*Run{r}, err)
		return !entered
	})
}

// lookAtOther observes a process that can reach runs. It is a stranger unless it belongs to a run.
func (w *Watcher) lookAtOther(q process, threads []status, first roots, runs []*Run) {
	own, err := first.read(w.proc, q)
	w.miss(runs, err)
	if err != nil || own != nil {
		return
	}
	w.find(runs, look.Stranger, q)
	w.lookForTerminal(q, threads, runs)
	w.lookForDebugger(q, threads, first, runs)
}

// lookForTerminal finds terminals, except an isolated run's own ones, which nothing outside can use. A standard input
// named /dev/tty could be any terminal, and counts as one from outside.
func (w *Watcher) lookForTerminal(q process, threads []status, runs []*Run) {
	const firstPTY, lastPTY = 136, 143 // the major device numbers of /dev/pts
	major := q.terminal >> 8 & 0xfff
	for _, r := range runs {
		if q.terminal != 0 && (r.own == nil || major < firstPTY || major > lastPTY) {
			w.find([]*Run{r}, look.Terminal, q)
		}
	}
	for _, s := range threads {
		owner, is, err := w.proc.terminal(s.tid)
		w.miss(runs, err)
		for _, r := range runs {
			if is && (r.own == nil || !r.own.ids.has(owner)) {
				w.find([]*Run{r}, look.Stdin, q)
			}
		}
	}
}

// lookForDebugger finds tracers. In an isolated run the agent may trace its own processes.
func (w *Watcher) lookForDebugger(q process, threads []status, first roots, runs []*Run) {
	for _, s := range threads {
		if s.tracer == 0 {
			continue
		}
		for _, r := range runs {
			inside, err := w.inside(s.tracer, r, first)
			w.miss([]*Run{r}, err)
			if err == nil && !inside {
				w.find([]*Run{r}, look.Debugger, q)
			}
		}
	}
}

func (w *Watcher) inside(tid int, r *Run, first roots) (bool, error) {
	if r.own == nil {
		return false, nil
	}
	s, err := w.proc.status(tid)
	if err != nil {
		return false, err
	}
	q, err := w.proc.read(s.tgid)
	if err != nil {
		return false, err
	}
	own, err := first.read(w.proc, q)
	return slices.Contains(own, r), err
}

func (w *Watcher) find(runs []*Run, kind string, q process) {
	f := look.Finding{Kind: kind, PID: q.pid, Command: q.command}
	for _, r := range runs {
		if r.find(f) {
			w.found(r, f)
		}
	}
}

// miss records why runs were not observed. A process that has ended needs no observation.
func (w *Watcher) miss(runs []*Run, err error) {
	if err == nil || errors.Is(err, errGone) {
		return
	}
	for _, r := range runs {
		r.miss(err.Error(), look.Kinds()...)
	}
}
