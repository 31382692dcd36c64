// Package look has the form in which processes and custodies say what they have seen of their own deployment. Claims of
// the manifest that can be checked this way need not be trusted. An [Observation] says in one sentence what was seen.
// Package policy says what that means for the manifest.
package look

// Result is the result of an observation.
type Result string

// The results. Unseen is the result of an observation that could not be made: it shows nothing, neither way.
const (
	NotObserved Result = ""
	Holds       Result = "holds"       // the deployment is as it should be
	Contradicts Result = "contradicts" // the deployment is not as it should be
)

// The names of the observations that are made for each signing key.
const (
	Process = "process" // the process that uses the key is out of the agent's reach
	Files   = "files"   // the files of that process are out of the agent's reach
	Custody = "custody" // the custody does not let the key out
	Apart   = "apart"   // the key, and the token for the custody, can sign nothing for another role
)

// The names of the observations that are made once.
const (
	Keys  = "keys"  // each accepted key is certified for one purpose, and no two purposes share one
	Gate  = "gate"  // every action passes the gate of this process
	Human = "human" // this trigger service signs nothing for events of humans, nor for events that were only reported
)

// The names of the observations of the processes of open sessions, one for each kind of finding.
const (
	Terminal = "terminal" // no process has a controlling terminal
	Stdin    = "stdin"    // no process reads a terminal as its standard input
	Debugger = "debugger" // no process is traced
	Stranger = "stranger" // no process came into the session from outside
)

// Observation is one observation that a process has made.
type Observation struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose,omitempty"` // the signing role that an observation of a key is about
	Result  Result `json:"result"`
	Seen    string `json:"seen"` // one sentence
}

// ID identifies what an observation is about.
func (l Observation) ID() string {
	if l.Purpose == "" {
		return l.Name
	}
	return l.Name + ":" + l.Purpose
}

// For returns the observation as one about the key of purpose.
func (l Observation) For(purpose string) Observation {
	l.Purpose = purpose
	return l
}

// New returns an observation that the caller has made.
func New(name string, result Result, seen string) Observation {
	return Observation{Name: name, Result: result, Seen: seen}
}
