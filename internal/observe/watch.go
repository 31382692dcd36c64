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

// Period is how often the processes of runs are looked at beside the looks that are asked for. What begins and ends between two looks
// is not seen.
const Period = 500 * time.Millisecond

// maxGap is how long nobody may have looked at a run for its looks to say something about all of it. A process that was stopped, or has no
// processor, looks at nothing meanwhile.
const maxGap = 10 * Period

// Watch looks at the processes of runs. It is safe for concurrent use.
type Watch struct {
	proc  *processes
	blind error   // why nothing is seen here
	user  *uint32 // the agent's; nil where nobody says
	now   func() time.Time
	found func(*Run, Finding)

	mu   sync.Mutex // guards both below
	runs []*Run     // whose launcher still ran at the last look
	next *batch     // the look that whoever asks now will share

	looking sync.Mutex // one look at a time
}

// batch is one look that several ask for.
type batch struct{ done chan struct{} }

// NewWatch makes a Watch on /proc. user is the agent's user, who runs nothing but what launchers start; without it nobody can tell
// which processes are strangers. now is the clock. found is told each thing that is found, once for each run.
func NewWatch(user *uint32, now func() time.Time, found func(*Run, Finding)) *Watch {
	return newWatch("/proc", user, now, found)
}

// Ask has the looker asked for standard inputs, for which this process needs no right then. It is called before the first Begin.
func (w *Watch) Ask(l *Looker) {
	if w.proc != nil {
		w.proc.looker = l
	}
}

func newWatch(path string, user *uint32, now func() time.Time, found func(*Run, Finding)) *Watch {
	w := &Watch{user: user, now: now, found: found}
	w.proc, w.blind = openProcesses(path)
	return w
}

// Begin begins the run of a launcher, whose process must still be there: the agent will be its child, and what the agent leaves behind
// its descendant too, since it is a child subreaper (PR_SET_CHILD_SUBREAPER). The id and the user are as the kernel says
// (SO_PEERCRED). Where the launcher cannot be seen, the run is one of which nothing is seen.
func (w *Watch) Begin(name string, pid int, uid uint32) *Run {
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

func (w *Watch) begin(r *Run, pid int, uid uint32) error {
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

// Run looks every [Period] until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for range every.Tick(ctx, Period) {
		_ = w.Look(ctx) // fails only when ctx ends
	}
}

// Look looks at all runs, now: it shares a look with others who ask, but none that had begun before it was asked for. What cannot be
// looked at is noted with the runs; it fails only when ctx ends.
func (w *Watch) Look(ctx context.Context) error {
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

// take waits for the look that is under way, and makes the next one.
func (w *Watch) take(b *batch) {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.mu.Lock()
	w.next = nil
	w.mu.Unlock()
	w.look()
	close(b.done)
}

// look looks once at every process. The runs are asked for after the processes: each process of a run that began meanwhile has its run.
func (w *Watch) look() {
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

// launched returns the runs whose launcher still runs, and forgets the others once it is noted.
func (w *Watch) launched() []*Run {
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

// lookAt looks at one process of runs.
func (w *Watch) lookAt(q process, own []*Run) {
	w.lookForDebugger(q, own)
	launcher := own[0].root
	if q.id == launcher.id || q.forked && q.parent == launcher.pid && q.session == launcher.session {
		return // the launcher, or its child that is yet to become the agent: the terminal is its operator's
	}
	w.lookForTerminal(q, own)
	if w.user == nil || q.forked && q.parent == launcher.pid { // the child takes the agent's user before it executes the agent
		return
	}
	users, err := w.users(q)
	if err == nil && slices.ContainsFunc(users, func(u string) bool { return u != w.agent() }) {
		err = errors.New("a process of it runs as another user than agent.uid")
	}
	w.miss(own, err, Stranger)
}

// reached returns the runs in whose reach a process is that no launcher has launched: all of them for one of the agent's user, which
// they share, and for one that somebody has put into this process namespace those that had begun before.
func (w *Watch) reached(q process, runs []*Run) []*Run {
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

// lookAtOther looks whether a process in whose reach runs are is a stranger to them.
func (w *Watch) lookAtOther(q process, launchers roots, runs []*Run) {
	own, err := launchers.read(w.proc, q)
	w.miss(runs, err, Stranger)
	if err != nil || own != nil {
		return
	}
	w.find(runs, Stranger, q)
	w.lookForTerminal(q, runs)
	w.lookForDebugger(q, runs)
}

func (w *Watch) users(q process) ([]string, error) {
	s, err := w.proc.status(strconv.Itoa(q.pid))
	return s.users, err
}

func (w *Watch) agent() string { return strconv.FormatUint(uint64(*w.user), 10) }

func (w *Watch) lookForTerminal(q process, runs []*Run) {
	if q.terminal {
		w.find(runs, Terminal, q)
	}
	reads, err := w.proc.readsTerminal(q)
	w.miss(runs, err, Stdin)
	if reads {
		w.find(runs, Stdin, q)
	}
}

func (w *Watch) lookForDebugger(q process, runs []*Run) {
	traced, err := w.proc.traced(q)
	w.miss(runs, err, Debugger)
	if traced {
		w.find(runs, Debugger, q)
	}
}

func (w *Watch) find(runs []*Run, kind string, q process) {
	f := Finding{Kind: kind, PID: q.pid, Command: q.command}
	for _, r := range runs {
		if r.find(f) {
			w.found(r, f)
		}
	}
}

// miss notes why kinds could not be looked at; a process that has ended is nothing to look at.
func (w *Watch) miss(runs []*Run, err error, kinds ...string) {
	if err == nil || errors.Is(err, errGone) {
		return
	}
	for _, r := range runs {
		r.miss(err.Error(), kinds...)
	}
}
