package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Launcher is the kind of the finding that a run's launcher has ended before its session. What the launcher left behind
// is out of sight.
const Launcher = "launcher"

// Answer is the kind of the finding that a human has answered a question of a tool. It is seen in a message, and not of a
// process, so it is none of kinds.
const Answer = "answer"

// kinds are all kinds of findings, in the order in which they are reported.
var kinds = []string{Terminal, Stdin, Debugger, Stranger, Launcher}

// Finding is something about a process that an unattended run does not have, such as a terminal.
type Finding struct {
	Kind    string // Terminal, Stdin, Debugger, Stranger, Launcher or Answer
	PID     int
	Command string // as the process names itself
}

// String returns the finding as one clause.
func (f Finding) String() string {
	if f.Kind == Answer {
		return "a human has answered a question of a tool"
	}
	what := map[string]string{
		Terminal: "has a controlling terminal", Stdin: "reads a terminal as its standard input", Debugger: "is traced by a debugger",
		Stranger: "was not started by the agent", Launcher: "was to launch the agent and has ended",
	}[f.Kind]
	return fmt.Sprintf("process %d (%s) %s", f.PID, f.Command, what)
}

// Run is what was observed of one run of an agent: of a launcher and of all processes that descend from it. Findings
// stay. A nil Run stands for a session that was not observed. A Run is safe for concurrent use.
type Run struct {
	Name  string // id of the event that caused it
	watch *Watcher
	root  process     // all processes of the run descend from it: the first of its namespaces, or the launcher
	first map[id]bool // processes without a parent when the run began: the first of each container
	own   *isolation  // nil for a run that is not isolated

	launcher process

	looked time.Time // the last observation, or the beginning; guarded by Watch.looking

	mu     sync.Mutex // guards the fields below
	ended  bool
	found  map[string]Finding
	unseen map[string]string // why a kind could not be observed
}

// End says that the run's session has ended, so that its launcher may end. Until the launcher ends, the run's processes
// are not strangers.
func (r *Run) End() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

func (r *Run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Report is what was observed of a run so far.
type Report struct {
	// Found is the first finding of each kind.
	Found []Finding
	// unseen says, by kind, why an observation could not be made each time.
	unseen map[string]string
}

// noLauncher says why a session without a Run is not observed.
const noLauncher = "its agent was not started by mediator run"

// Look observes the run now, and returns what has been observed since it began.
func (r *Run) Look(ctx context.Context) (Report, error) {
	if r == nil {
		return r.Report(), nil
	}
	err := r.watch.Look(ctx)
	return r.Report(), err
}

// Report returns what has been observed since the run began.
func (r *Run) Report() Report {
	if r == nil {
		unseen := make(map[string]string)
		for _, kind := range kinds {
			unseen[kind] = noLauncher
		}
		return NewReport(nil, unseen)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Finding
	for _, kind := range kinds {
		if f, ok := r.found[kind]; ok {
			found = append(found, f)
		}
	}
	return NewReport(found, r.unseen)
}

// NewReport returns a report of findings. unseen says, by kind, why an observation could not be made each time.
func NewReport(found []Finding, unseen map[string]string) Report {
	out := Report{Found: found, unseen: make(map[string]string)}
	maps.Copy(out.unseen, unseen)
	return out
}

// Has reports whether there is a finding of this kind.
func (r Report) Has(kind string) bool {
	return slices.ContainsFunc(r.Found, func(f Finding) bool { return f.Kind == kind })
}

// Covered reports whether every observation so far covered this kind. Only then does it mean something that nothing was
// found.
func (r Report) Covered(kind string) bool {
	_, blind := r.unseen[kind]
	return r.unseen != nil && !blind
}

// AnyCovered reports whether anything could be observed.
func (r Report) AnyCovered() bool { return len(r.Found) > 0 || slices.ContainsFunc(kinds, r.Covered) }

// find keeps the first finding of each kind, and reports whether f is the first.
func (r *Run) find(f Finding) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.found[f.Kind]; known {
		return false
	}
	r.found[f.Kind] = f
	return true
}

// miss notes why kinds could not be observed.
func (r *Run) miss(why string, kinds ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range kinds {
		if _, known := r.unseen[kind]; !known {
			r.unseen[kind] = why
		}
	}
}

// none completes, for each kind, the sentence that begins with "no process".
var none = map[string]string{
	Terminal: "had a controlling terminal", Stdin: "read a terminal as its standard input", Debugger: "was traced from outside", Stranger: "was put in from outside",
}

// whoEnters names those whom no observation of a run can exclude.
const whoEnters = "Root and the container runtime can; that they do not is only declared"

// OfRuns returns what was observed of the runs of all open sessions. A nil run stands for a session that was not
// observed. A finding in one run contradicts; otherwise one run that is not isolated leaves the result unseen.
func OfRuns(runs []*Run) []Observation {
	var out []Observation
	for _, kind := range []string{Terminal, Stdin, Debugger, Stranger} {
		out = append(out, lookAt(kind, runs))
	}
	return out
}

func lookAt(kind string, runs []*Run) Observation {
	if len(runs) == 0 {
		return look(kind, NotObserved, "No session is open whose processes could be looked at.")
	}
	result := look(kind, Holds, "Each of %d open sessions has namespaces and users of its own, which nobody else can enter, and no process %s. %s.", len(runs), none[kind], whoEnters)
	for _, r := range runs {
		report := r.Report()
		for _, f := range report.Found {
			if f.Kind == kind {
				return look(kind, Contradicts, "In the session for the event %s, %s.", r.Name, f)
			}
		}
		if why, blind := report.unseen[kind]; blind {
			result = look(kind, NotObserved, "That no process %s is not observed in each open session: %s.", none[kind], why)
		}
	}
	return result
}
