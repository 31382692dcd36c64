package verification

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// State is the state of a verification.
type State string

// The states. The last three are final.
const (
	Pending    State = "pending"     // asked for
	InProgress State = "in-progress" // a turn was taken
	Completed  State = "completed"   // registered
	Failed     State = "failed"      // judged, and refused
	Expired    State = "expired"     // not finished in time
)

// Final reports whether nothing follows the state.
func (s State) Final() bool { return s != Pending && s != InProgress }

// Mode says what a verification demands.
type Mode string

// The modes. The zero value is ModeObserved.
const (
	ModeObserved Mode = "observed" // each check has to be observed by the node
	ModeSeed     Mode = "seed"     // what the original accepts, marked as declared
)

// NonceLifetime is how long an agent has to register after it has asked for a verification.
const NonceLifetime = 5 * time.Minute

const (
	sessionLifetime = 10 * time.Minute
	maxCalls        = 64 // that the node keeps of one session
	idBytes         = 24 // of a session's id
	nonceBytes      = 32
)

// Session is the state of one verification. Its times are Unix milliseconds by the store's clock.
type Session struct {
	ID      string `json:"id"`
	Nonce   string `json:"nonce"`
	Key     string `json:"key"` // in hex: see Key.String
	Caller  Caller `json:"caller"`
	Task    Task   `json:"task"`
	State   State  `json:"state"`
	Opened  int64  `json:"opened"`
	Version int64  `json:"version"` // counts the updates: see Store

	// Early says that the key's owner may have the privileged path, so that the follow-up comes a turn earlier. What counts is asked
	// again when the agent registers and has proven that it holds the key.
	Early bool `json:"early,omitempty"`

	Step     int64     `json:"step"` // of what happened last: calls, turns and the follow-up are numbered together
	Calls    []Call    `json:"calls,omitempty"`
	Turns    []Taken   `json:"turns,omitempty"`
	FollowUp *FollowUp `json:"followUp,omitempty"`
	Answered Answered  `json:"answered,omitzero"`
}

// Caller says who calls, as the transport knows it.
type Caller struct {
	// Subject is who answers for the calls: an agent that a sidecar names, or a network address. Limits and failures stick to it.
	Subject string `json:"subject"`
	// Session is the sidecar's session of the agent; empty for agents elsewhere.
	Session string `json:"session,omitempty"`
	// ModelCalls is how many calls of that session to models the sidecar had seen end with a whole answer when it named the caller.
	ModelCalls int64 `json:"modelCalls,omitempty"`
}

// basis says how the subject is known.
func (c Caller) basis() string {
	if c.Session != "" {
		return BasisObserved
	}
	return BasisDeclared
}

// same reports whether by may act in a session that c opened. A sidecar says for certain who calls, and then everything in the session has to
// come from that caller. Without one, only the session's id is held against a caller: an address can change.
func (c Caller) same(by Caller) bool { return c.Is(by) || c.Session == "" && by.Session == "" }

// Is reports whether two callers are one agent in one session, or have one address.
func (c Caller) Is(other Caller) bool {
	return c.Subject == other.Subject && c.Session == other.Session
}

// Call is one tool call that the node served in a session.
type Call struct {
	Step   int64  `json:"step"`
	Tool   string `json:"tool"`
	Input  string `json:"input"`  // SHA-256 of the canonical JSON of the arguments
	Output string `json:"output"` // SHA-256 of the canonical JSON of the result
	Query  string `json:"query,omitempty"`
	Canary string `json:"canary"`
	Turn   int    `json:"turn,omitempty"` // the number, from 1, of the turn that names this call
}

// Taken is a turn that the node received. The turn's hash fixes all of its content at the time of receipt. What the flags say was seen when
// the turn was received.
type Taken struct {
	Step int64  `json:"step"`
	At   int64  `json:"at"`
	Hash string `json:"hash"`
	Tool string `json:"tool"`

	Chained bool `json:"chained,omitempty"` // the hash is that of the content, after the turn before
	Served  bool `json:"served,omitempty"`  // the node had served the call that the turn tells of, with this result
	Used    bool `json:"used,omitempty"`    // the reasoning has the canary of the turn before; the first has none to use

	ModelCalls int64 `json:"modelCalls,omitempty"` // see Caller
}

// FollowUp is the question that the node asks after the base turns.
type FollowUp struct {
	Step   int64  `json:"step"`
	Prompt string `json:"prompt"`
	Tool   string `json:"tool"`
	Query  string `json:"query,omitempty"` // that the call has to have; empty for a tool without a query
}

// Answered says how the follow-up was answered (original: followUpCompleted). A later answer that is observed takes the place of one that is
// only declared.
type Answered struct {
	Step     int64 `json:"step"`     // of the turn; zero where there is no answer
	Observed bool  `json:"observed"` // the turn tells of the call that the follow-up asked for, with data of its result
}

// newSession makes a pending session with a fresh id and nonce.
func newSession(key Key, by Caller, task Task, now time.Time) Session {
	return Session{ID: random(idBytes), Nonce: random(nonceBytes), Key: key.String(), Caller: by, Task: task, State: Pending, Opened: now.UnixMilli()}
}

// random returns n random bytes in hex.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand.Read never fails; it ends the process instead
	return hex.EncodeToString(b)
}

// Expires returns when the session ends by itself.
func (s *Session) Expires() time.Time { return time.UnixMilli(s.Opened).Add(sessionLifetime) }

// nonceExpires returns when the nonce is no longer taken.
func (s *Session) nonceExpires() time.Time { return time.UnixMilli(s.Opened).Add(NonceLifetime) }

// open refuses a session in which nothing can happen any more. It sets the state of one whose time is over.
func (s *Session) open(now time.Time) error {
	if !s.State.Final() && !now.Before(s.Expires()) {
		s.State = Expired
	}
	switch s.State {
	case Pending, InProgress:
		return nil
	case Expired:
		return refusal.New("verification_closed", "the verification was not finished within %v", sessionLifetime)
	}
	return refusal.New("verification_closed", "the verification is %s; nothing follows", s.State)
}

// end moves an open session to a final state.
func (s *Session) end(passed bool) {
	s.State = Failed
	if passed {
		s.State = Completed
	}
}

// served records a call, and the canary in its result.
func (s *Session) served(tool, query, input, output, canary string) error {
	if len(s.Calls) == maxCalls {
		return refusal.New("content_too_large", "the verification has had %d calls; no more are served in it", maxCalls)
	}
	s.Step++
	s.Calls = append(s.Calls, Call{Step: s.Step, Tool: tool, Query: query, Input: input, Output: output, Canary: canary})
	return nil
}

// take records a turn. In ModeObserved it refuses a turn that does not tell of a call as the node served it; the agent can send a better
// one. After the base turns it asks the follow-up.
func (s *Session) take(t Turn, by Caller, now time.Time, mode Mode) error {
	if err := t.check(); err != nil {
		return err
	}
	if len(s.Turns) == MaxTurns {
		return refusal.New("content_too_large", "the verification has %d turns; no more are taken", MaxTurns)
	}
	if length(trim(t.Reasoning)) < leastReasoning {
		return refusal.New("verification_turn", "the turn's reasoning has fewer than %d characters", leastReasoning)
	}
	if !evidence.IsHash(t.Hash) {
		return refusal.New("query_malformed", "the turn's hash is not a lowercase hex SHA-256")
	}
	seen, call := s.observe(t)
	if mode != ModeSeed {
		if err := s.demand(t, seen); err != nil {
			return err
		}
	}
	s.Step++
	seen.Step, seen.At, seen.ModelCalls = s.Step, now.UnixMilli(), by.ModelCalls
	s.Turns = append(s.Turns, seen)
	if call != nil {
		call.Turn = len(s.Turns)
	}
	s.State = InProgress
	s.follow(t, seen, call, mode)
	return nil
}

// follow asks the follow-up after the base turns, and records the turn that answers it.
func (s *Session) follow(t Turn, seen Taken, call *Call, mode Mode) {
	switch {
	case s.FollowUp == nil && len(s.Turns) >= s.Task.base(s.Early):
		s.Step++
		s.FollowUp = newFollowUp(s.Step, t)
	case s.FollowUp != nil && !s.Answered.Observed && s.FollowUp.answered(t, call, mode):
		s.Answered = Answered{seen.Step, s.FollowUp.observed(t, call)}
	}
}

// isHex reports whether text is the lowercase hex of n bytes.
func isHex(text string, n int) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == n && hex.EncodeToString(raw) == text
}
