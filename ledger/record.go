package ledger

import "time"

// State is how a call ended.
type State string

// The states of a record.
const (
	StateRefused       State = "refused"       // nothing was sent
	StateForwarding    State = "forwarding"    // the intent is durable; the outcome is not yet known
	StateForwarded     State = "forwarded"     // the upstream answered
	StateFailed        State = "failed"        // nothing was sent: the upstream could not be reached
	StateIndeterminate State = "indeterminate" // it may have been sent
)

// States are all of them.
var States = [...]State{StateRefused, StateForwarding, StateForwarded, StateFailed, StateIndeterminate}

// Outcome reports whether s is how a post that had begun can end.
func (s State) Outcome() bool {
	return s == StateForwarded || s == StateFailed || s == StateIndeterminate
}

// Whole reports whether s is the state of a record that is added at once: the call is over.
func (s State) Whole() bool { return s == StateRefused || s.Outcome() }

// Record is the record of one call.
type Record struct {
	ID       string `json:"id"`
	Flow     string `json:"flow"`
	State    State  `json:"state"`
	Session  string `json:"session,omitempty"`
	Event    string `json:"event,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Action   string `json:"action,omitempty"`
	Resource string `json:"resource,omitempty"`
	Method   string `json:"method,omitempty"`
	Host     string `json:"host,omitempty"` // with the port, always
	Path     string `json:"path,omitempty"` // without the query
	// the action of the call's message, if its rule is about messages
	Message      string     `json:"message,omitempty"`
	Result       string     `json:"result,omitempty"`       // what became of it, by the server's answer
	Model        *ModelCall `json:"model,omitempty"`        // what was seen of a call to a model
	Interactions *Standing  `json:"interactions,omitempty"` // where the chain of the session's receipts stood at a post
	ContentHash  string     `json:"contentHash,omitempty"`
	BindingHash  string     `json:"bindingHash,omitempty"`
	CapabilityID string     `json:"capabilityId,omitempty"`
	Started      time.Time  `json:"started"`
	Finished     time.Time  `json:"finished,omitzero"`
	Manifest     string     `json:"manifest,omitempty"` // hash of the deployment manifest that the call was judged by
	Code         string     `json:"code,omitempty"`     // of a refusal or failure
	Step         string     `json:"step,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	Status       int        `json:"status,omitempty"` // of the upstream
	BytesOut     int64      `json:"bytesOut,omitempty"`
	BytesIn      int64      `json:"bytesIn,omitempty"`
	Artifacts    []Artifact `json:"artifacts,omitempty"`
	Checks       []Check    `json:"checks,omitempty"`
	Steps        []Step     `json:"steps,omitempty"`

	// Keys are the keys that signed the artifacts, in a list of keys alone.
	Keys []string `json:"keys,omitempty"`

	// Open is kept with the intent of a post that needs a receipt. The record itself does not have it.
	Open []OpenCall `json:"-"`
}

// Artifact is one signed artifact of a post, as it travelled.
type Artifact struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

// Check is one verification with its result.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Step is one step of the way, with the time that it took.
type Step struct {
	Name   string `json:"name"`
	Micros int64  `json:"micros"`
}
