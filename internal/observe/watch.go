package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/every"
)

// Period is how often the processes of runs are observed, besides observations on request. A process that begins and
// ends between two observations is not seen.
const Period = 500 * time.Millisecond

// maxGap is the longest time between two observations of a run for which they still cover the whole run. While this
// process is stopped, or gets no processor, it observes nothing.
const maxGap = 10 * Period

// Watcher observes the processes of runs. It is safe for concurrent use.
type Watcher struct {
	proc  *processes
	blind error   // why no process can be observed
	user  *uint32 // the agent's user; nil if it is not configured
	now   func() time.Time
	found func(*Run, Finding)

	mu   sync.Mutex // guards the two fields below
	runs []*Run     // runs whose launcher still ran when last observed
	next *batch     // the next observation, which its callers share

	looking sync.Mutex // held during an observation
}

// batch is one observation that several callers wait for.
type batch struct{ done chan struct{} }

// NewWatcher makes a Watcher on /proc. user is the agent's user, who runs nothing but what launchers start; without it, the
// Watch cannot tell which processes are strangers. now is the clock. The Watch calls found once for each finding of a
// run.
func NewWatcher(user *uint32, now func() time.Time, found func(*Run, Finding)) *Watcher {
	return newWatch("/proc", user, now, found)
}

// UseStdinClient makes the watch use the looker process to read standard inputs, so this process needs no ptrace right. Call it
// before the first Begin.
func (w *Watcher) UseStdinClient(l *StdinClient) {
	if w.proc != nil {
		w.proc.looker = l
	}
}

func newWatch(path string, user *uint32, now func() time.Time, found func(*Run, Finding)) *Watcher {
	w := &Watcher{user: user, now: now, found: found}
	w.proc, w.blind = openProcesses(path)
	return w
}

// Begin begins the run of a launcher, which must still be running. The agent will be the launcher's child. What the
// agent leaves behind becomes the launcher's child too, because the launcher is a child subreaper
// (PR_SET_CHILD_SUBREAPER). The pid and the user come from the kernel (SO_PEERCRED). If the launcher cannot be
// observed, neither can the run.
func (w *Watcher) Begin(name string, pid int, uid uint32) *Run {
	r := &Run{Name: name, watch: w, found: make(map[string]Finding), unseen: make(map[string]string)}
	if err := w.begin(r, pid, uid); err != nil {
		r.miss(err.Error(), kinds...)
		return r
	}
	if w.user == nil {
		r.miss("the agent's user is not configured (agent.uid)", Stranger)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, r)
	return r
}

func (w *Watcher) begin(r *Run, pid int, uid uint32) error {
	switch {
	case w.blind != nil:
		return w.blind
	case pid <= 0:
		return errors.New("its launcher is in another process namespace")
	case w.user != nil && uid == *w.user:
		return errors.New("its launcher runs as the agent's own user")
	}
	r.looked = w.now()
	all, err := w.proc.readAll()
	if err != nil {
		return err
	}
	launcher, ok := all[pid]
	if !ok {
		return errors.New("its launcher cannot be seen")
	}
	r.root, r.first = launcher, make(map[id]bool)
	for _, q := range all {
		if q.parent == 0 {
			r.first[q.id] = true
		}
	}
	return nil
}

// Run observes all runs every [Period] until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	for range every.Tick(ctx, Period) {
		_ = w.Look(ctx) // fails only when ctx ends
	}
}

// Look observes all runs now. It shares an observation with other callers, but never one that had begun before the
// call. An observation that fails is noted with the runs; Look itself fails only when ctx ends.
func (w *Watcher) Look(ctx context.Context) error {
	w.mu.Lock()
	if len(w.runs) == 0 {
		w.mu.Unlock()
		return nil
	}
	b, mine := w.next, false
	if b == nil {
		b, mine = &batch{done: make(chan struct{})}, true
		w.next = b
	}
	w.mu.Unlock()
	if mine {
		go w.take(b)
	}
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take waits for the observation that is under way, and makes the next one.
func (w *Watcher) take(b *batch) {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.mu.Lock()
	w.next = nil
	w.mu.Unlock()
	w.look()
	close(b.done)
}

// look observes every process once. It reads the runs after the processes: a process of a run that has begun meanwhile
// then has its run.
func (w *Watcher) look() {
	now := w.now()
	all, err := w.proc.readAll()
	runs := w.launched()
	for _, r := range runs {
		if gap := now.Sub(r.looked); gap > maxGap {
			w.miss([]*Run{r}, fmt.Errorf("nobody looked for %s", gap.Round(time.Second)), kinds...)
		}
		r.looked = now
	}
	if err != nil {
		w.miss(runs, err, kinds...)
		return
	}
	launchers := make(roots)
	for _, r := range runs {
		launchers[r.root.id] = append(launchers[r.root.id], r)
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
		if own, _ := launchers.of(q, parent); own != nil {
			w.lookAt(q, own)
		} else if reached := w.reached(q, runs); len(reached) > 0 {
			w.lookAtOther(q, launchers, reached)
		}
	}
}

// launched returns the runs whose launcher still runs. It notes the end of the other launchers and forgets their runs.
func (w *Watcher) launched() []*Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = slices.DeleteFunc(w.runs, func(r *Run) bool {
		q, err := w.proc.read(r.root.pid)
		w.miss([]*Run{r}, err, kinds...)
		if err != nil && !errors.Is(err, errGone) || err == nil && q.id == r.root.id && !q.ended {
			return false
		}
		if !r.over() {
			w.find([]*Run{r}, Launcher, r.root)
		}
		return true
	})
	return slices.Clone(w.runs)
}

// lookAt observes one process of runs.
func (w *Watcher) lookAt(q process, own []*Run) {
	w.lookForDebugger(q, own)
	launcher := own[0].root
	if q.id == launcher.id || q.forked && q.parent == launcher.pid && q.session == launcher.session {
		return // the launcher, or its child before it executes the agent: they have the operator's terminal
	}
	w.lookForTerminal(q, own)
	if w.user == nil || q.forked && q.parent == launcher.pid { // the child will change its user before it executes the agent
		return
	}
	users, err := w.users(q)
	if err == nil && slices.ContainsFunc(users, func(u string) bool { return u != w.agent() }) {
		err = errors.New("a process of it runs as another user than agent.uid")
	}
	w.miss(own, err, Stranger)
}

// reached returns the runs that a process can reach although no launcher has started it. A process of the agent's user
// reaches all runs, because they share the user. A process that entered this process namespace reaches the runs that
// had begun before.
func (w *Watcher) reached(q process, runs []*Run) []*Run {
	if w.user != nil {
		users, err := w.users(q)
		w.miss(runs, err, Stranger)
		if slices.Contains(users, w.agent()) {
			return runs
		}
	}
	if q.parent != 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r *Run) bool { return r.first[q.id] })
}

// lookAtOther observes a process that can reach runs, and finds a stranger if it belongs to none.
func (w *Watcher) lookAtOther(q process, launchers roots, runs []*Run) {
	own, err := launchers.read(w.proc, q)
	w.miss(runs, err, Stranger)
	if err != nil || own != nil {
		return
	}
	w.find(runs, Stranger, q)
	w.lookForTerminal(q, runs)
	w.lookForDebugger(q, runs)
}

func (w *Watcher) users(q process) ([]string, error) {
	s, err := w.proc.status(strconv.Itoa(q.pid))
	return s.users, err
}

func (w *Watcher) agent() string { return strconv.FormatUint(uint64(*w.user), 10) }

func (w *Watcher) lookForTerminal(q process, runs []*Run) {
	if q.terminal {
		w.find(runs, Terminal, q)
	}
	reads, err := w.proc.readsTerminal(q)
	w.miss(runs, err, Stdin)
	if reads {
		w.find(runs, Stdin, q)
	}
}

func (w *Watcher) lookForDebugger(q process, runs []*Run) {
	traced, err := w.proc.traced(q)
	w.miss(runs, err, Debugger)
	if traced {
		w.find(runs, Debugger, q)
	}
}

func (w *Watcher) find(runs []*Run, kind string, q process) {
	f := Finding{Kind: kind, PID: q.pid, Command: q.command}
	for _, r := range runs {
		if r.find(f) {
			w.found(r, f)
		}
	}
}

// miss notes why kinds could not be observed. A process that has ended needs no observation.
func (w *Watcher) miss(runs []*Run, err error, kinds ...string) {
	if err == nil || errors.Is(err, errGone) {
		return
	}
	for _, r := range runs {
		r.miss(err.Error(), kinds...)
	}
}
