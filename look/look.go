// Package look has the form of observations: what processes and custodies see of their own deployment, so that the
// manifest's claims need not be trusted. Package policy compares them with the manifest.
package look

// Result is Holds, Contradicts, or "" for neither.
type Result string

// The results. NotObserved shows nothing either way.
const (
	NotObserved Result = ""
	Holds       Result = "holds"       // as it should be
	Contradicts Result = "contradicts" // not as it should be
)

// The observations of each signing key.
const (
	Process = "process" // the key's process is out of the agent's reach
	Files   = "files"   // that process's files are out of the agent's reach
	Custody = "custody" // the custody does not let the key out
	Apart   = "apart"   // the key and the custody's token sign for no other role
)

// The observations that are made once.
const (
	Keys  = "keys"  // each accepted key has one purpose, and no two purposes share a key
	Gate  = "gate"  // every action passes this process's gate
	Human = "human" // this trigger service signs nothing for human or merely reported events
)

// The observations of the processes in open sessions, one for each kind of finding.
const (
	Terminal = "terminal" // none has a controlling terminal
	Stdin    = "stdin"    // none reads a terminal as standard input
	Debugger = "debugger" // none is traced
	Stranger = "stranger" // none came from outside
)

// Observation is what a process or custody saw of one subject.
type Observation struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose,omitempty"` // the signing role of a key's observation
	Result  Result `json:"result"`
	Seen    string `json:"seen"` // one sentence
}

// ID identifies the subject of an observation.
func (l Observation) ID() string {
	if l.Purpose == "" {
		return l.Name
	}
	return l.Name + ":" + l.Purpose
}

// For returns the observation for the key of purpose.
func (l Observation) For(purpose string) Observation {
	l.Purpose = purpose
	return l
}

// New makes an observation; seen is the sentence for operators.
func New(name string, result Result, seen string) Observation {
	return Observation{Name: name, Result: result, Seen: seen}
}
