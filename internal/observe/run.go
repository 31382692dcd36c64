package observe

import (
	"context"
	"sync"
	"time"

	"github.com/actionproof/mediator/look"
)

// Run holds the observations of a launcher and of all processes below it. Findings stay. A nil Run is a session that is
// not observed. A Run is safe for concurrent use.
type Run struct {
	Name     string // id of the event that caused it
	watch    *Watcher
	launcher process
	root     process     // all processes of the run descend from it: the first of its namespaces, or the launcher
	first    map[id]bool // processes without a parent when the run began: the first of each container
	own      *isolation  // nil for a run that is not isolated

	looked time.Time // the last observation, or the beginning; guarded by Watcher.looking

	mu     sync.Mutex // guards the fields below
	ended  bool
	found  map[string]look.Finding
	unseen map[string]string // why a kind could not be observed
}

// End marks the run's session as ended: its launcher may now end. Until then the run's processes are no strangers.
func (r *Run) End() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// Isolated reports whether the run was isolated when it began, so that findings in it concern no other run.
func (r *Run) Isolated() bool { return r != nil && r.own != nil }

func (r *Run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// noLauncher says why a session without a Run is not observed.
const noLauncher = "its agent was not started by mediator run"

// Look observes the run now, and reports all observations since it began.
func (r *Run) Look(ctx context.Context) (look.Report, error) {
	if r == nil {
		return r.Report(), nil
	}
	err := r.watch.Look(ctx)
	return r.Report(), err
}

// Report returns all observations since the run began.
func (r *Run) Report() look.Report {
	if r == nil {
		unseen := make(map[string]string)
		for _, kind := range look.Kinds() {
			unseen[kind] = noLauncher
		}
		return look.NewReport(nil, unseen)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []look.Finding
	for _, kind := range look.Kinds() {
		if f, ok := r.found[kind]; ok {
			found = append(found, f)
		}
	}
	return look.NewReport(found, r.unseen)
}

func (r *Run) find(f look.Finding) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.found[f.Kind]; known {
		return false
	}
	r.found[f.Kind] = f
	return true
}

// miss records why kinds were not observed.
func (r *Run) miss(why string, kinds ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range kinds {
		if _, known := r.unseen[kind]; !known {
			r.unseen[kind] = why
		}
	}
}

// none completes a sentence that begins with "no process".
var none = map[string]string{
	look.Terminal: "had a controlling terminal", look.Stdin: "read a terminal as its standard input",
	look.Debugger: "was traced from outside", look.Stranger: "was put in from outside",
}

// notSeen names the ways into a run that no observation can exclude.
const notSeen = "Root and the container runtime can enter. It is only declared that they do not, and that no person " +
	"types into the run through a file, a FIFO, a socket or an allowed host"

// OfRuns combines the observations of all open sessions: NotObserved if one is not isolated, unless one contradicts.
func OfRuns(runs []*Run) []look.Observation {
	var out []look.Observation
	for _, kind := range []string{look.Terminal, look.Stdin, look.Debugger, look.Stranger} {
		out = append(out, lookAt(kind, runs))
	}
	return out
}

func lookAt(kind string, runs []*Run) look.Observation {
	if len(runs) == 0 {
		return looked(kind, look.NotObserved, "No session is open whose processes could be looked at.")
	}
	result := looked(kind, look.Holds,
		"Each of %d open sessions has its own namespaces and users, and no process %s. %s.",
		len(runs), none[kind], notSeen)
	for _, r := range runs {
		report := r.Report()
		for _, f := range report.Found {
			if f.Kind == kind {
				return looked(kind, look.Contradicts, "In the session for the event %s, %s.", r.Name, f)
			}
		}
		if why := report.Unseen(kind); why != "" {
			result = looked(kind, look.NotObserved, "It is not observed in each open session that no process %s: %s.",
				none[kind], why)
		}
	}
	return result
}
