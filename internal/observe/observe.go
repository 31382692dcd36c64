// Package observe looks at what a process can see of its own deployment, so that a manifest's claims need not be taken on trust where
// they can be checked. A look says what was seen in one sentence; what it means for the manifest is policy's to say.
package observe

import "fmt"

// Result is what a look came to.
type Result string

// The results. What could not be looked at is Unseen and shows nothing, neither way.
const (
	Unseen      Result = ""
	Holds       Result = "holds"       // it is as it should be
	Contradicts Result = "contradicts" // it is not
)

// The names of the looks that are made of each signing key.
const (
	Process = "process" // the process that uses the key is out of the agent's reach
	Files   = "files"   // so are its files
	Custody = "custody" // the custody does not let the key out
	Apart   = "apart"   // the key, and the token that stands for it, can sign nothing of another role
)

// Looks that are made once.
const (
	Keys  = "keys"  // each accepted key is certified for one purpose, and no two purposes share one
	Gate  = "gate"  // every action passes the gate of this process
	Human = "human" // this trigger service signs nothing for what its configuration lists as a human's, or somebody only reported
)

// The looks at the processes of the sessions that are open, one for each kind of [Finding].
const (
	Terminal = "terminal" // no process has a controlling terminal
	Stdin    = "stdin"    // no process reads a terminal as its standard input
	Debugger = "debugger" // no process is traced
	Stranger = "stranger" // no process was put in from outside
)

// Look is one thing that a process looked at.
type Look struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose,omitempty"` // the signing role that it is about, for looks at keys
	Result  Result `json:"result"`
	Seen    string `json:"seen"` // one sentence
}

// ID names what a look is about.
func (l Look) ID() string {
	if l.Purpose == "" {
		return l.Name
	}
	return l.Name + ":" + l.Purpose
}

// For returns the look as one about the key of purpose.
func (l Look) For(purpose string) Look {
	l.Purpose = purpose
	return l
}

// Made is a look that somebody else has made.
func Made(name string, result Result, seen string) Look {
	return Look{Name: name, Result: result, Seen: seen}
}

func look(name string, result Result, format string, args ...any) Look {
	return Look{Name: name, Result: result, Seen: fmt.Sprintf(format, args...)}
}
