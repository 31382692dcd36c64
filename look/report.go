package look

import (
	"fmt"
	"maps"
	"slices"
)

// Launcher is the kind of finding that a run's launcher ended before its session: what it left behind is out of sight.
const Launcher = "launcher"

// Answer is the kind of finding that a human may have answered a tool's question. It is seen in a message, so [Kinds]
// lacks it.
const Answer = "answer"

// Kinds returns the kinds of findings about processes, in reporting order.
func Kinds() []string { return []string{Terminal, Stdin, Debugger, Stranger, Launcher} }

// Finding is something that an unattended run does not have, such as a terminal.
type Finding struct {
	Kind    string // Terminal, Stdin, Debugger, Stranger, Launcher or Answer
	PID     int
	Command string // as the process names itself
}

func (f Finding) String() string {
	if f.Kind == Answer {
		return "a human has answered a question of a tool, or may have"
	}
	what := map[string]string{
		Terminal: "has a controlling terminal", Stdin: "reads a terminal as its standard input",
		Debugger: "is traced by a debugger",
		Stranger: "was not started by the agent", Launcher: "was to launch the agent and has ended",
	}[f.Kind]
	return fmt.Sprintf("process %d (%s) %s", f.PID, f.Command, what)
}

// Report has the observations of a run so far.
type Report struct {
	// Found has the first finding of each kind.
	Found []Finding
	// unseen says, by kind, why an observation failed every time.
	unseen map[string]string
}

// NewReport returns a report. unseen says, by kind, why an observation failed every time.
func NewReport(found []Finding, unseen map[string]string) Report {
	out := Report{Found: found, unseen: make(map[string]string)}
	maps.Copy(out.unseen, unseen)
	return out
}

// Has reports whether there is a finding of this kind.
func (r Report) Has(kind string) bool {
	return slices.ContainsFunc(r.Found, func(f Finding) bool { return f.Kind == kind })
}

// Covered reports whether every observation covered this kind. Only then the absence of a finding means something.
func (r Report) Covered(kind string) bool {
	_, blind := r.unseen[kind]
	return r.unseen != nil && !blind
}

// Unseen says why an observation of this kind failed every time, if it did.
func (r Report) Unseen(kind string) string { return r.unseen[kind] }

// AnyCovered reports whether anything could be observed.
func (r Report) AnyCovered() bool { return len(r.Found) > 0 || slices.ContainsFunc(Kinds(), r.Covered) }
