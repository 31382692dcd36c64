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

// The states; the last three are final.
const (
	Pending    State = "pending"
	InProgress State = "in-progress"
	Completed  State = "completed"
	Failed     State = "failed"
	Expired    State = "expired"
)

// Final reports whether nothing can follow the state.
func (s State) Final() bool { return s != Pending && s != InProgress }

// Mode is what a verification demands.
type Mode string

const (
	ModeObserved Mode = "observed" // all checks observed by the node
	ModeSeed     Mode = "seed"     // as the original, with checks marked as declared
)

// NonceLifetime is the time from the request to the registration.
const NonceLifetime = 5 * time.Minute

const (
	sessionLifetime = 10 * time.Minute
	maxCalls        = 64
	idBytes         = 24
	nonceBytes      = 32
)

// Session is one verification. Times are Unix milliseconds by the store's clock.
type Session struct {
	ID      string `json:"id"`
	Nonce   string `json:"nonce"`
	Key     string `json:"key"` // [Key.String]
	Caller  Caller `json:"caller"`
	Task    Task   `json:"task"`
	State   State  `json:"state"`
	Opened  int64  `json:"opened"`
	Version int64  `json:"version"` // counts updates: see [Store]

	// Early says that the key may have the privileged path, so that the follow-up comes a turn earlier. The gates decide
	// again at the registration.
	Early bool `json:"early,omitempty"`

	Step     int64     `json:"step"` // the last step; calls, turns and the follow-up are numbered together
	Calls    []Call    `json:"calls,omitempty"`
	Turns    []Taken   `json:"turns,omitempty"`
	FollowUp *FollowUp `json:"followUp,omitempty"`
	Answered Answered  `json:"answered,omitzero"`
}

// Caller is the caller as the transport knows it.
type Caller struct {
	// Subject is the agent named by a sidecar, or a network address. Limits and failures apply to it.
	Subject string `json:"subject"`
	// Session is the sidecar's session; empty without a sidecar.
	Session string `json:"session,omitempty"`
	// ModelCalls counts the session's model calls with a whole answer that the sidecar had seen.
	ModelCalls int64 `json:"modelCalls,omitempty"`
}

func (c Caller) basis() string {
	if c.Session != "" {
		return BasisObserved
	}
	return BasisDeclared
}

// same reports whether by may act in a session that c opened. Addresses change: without a sidecar the id suffices.
func (c Caller) same(by Caller) bool {
	return c.Session == by.Session && (c.Session == "" || c.Subject == by.Subject)
}

// Call is a tool call that the node served in a session.
type Call struct {
	Step   int64  `json:"step"`
	Tool   string `json:"tool"`
	Input  string `json:"input"`  // SHA-256 of the canonical JSON of the arguments
	Output string `json:"output"` // SHA-256 of the canonical JSON of the result
	Query  string `json:"query,omitempty"`
	Canary string `json:"canary"`
	Turn   int    `json:"turn,omitempty"` // number of the turn about it, from 1
}

// Taken is a received turn. Its hash fixes its content. The flags were set at its arrival.
type Taken struct {
	Step int64  `json:"step"`
	At   int64  `json:"at"`
	Hash string `json:"hash"`
	Tool string `json:"tool"`

	Chained bool `json:"chained,omitempty"` // the hash follows from the content and the turn before
	Served  bool `json:"served,omitempty"`  // the node had served the turn's call with this result
	Used    bool `json:"used,omitempty"`    // the reasoning has the previous canary; the first turn needs none

	ModelCalls int64 `json:"modelCalls,omitempty"`
}

// FollowUp is the node's question after the base turns.
type FollowUp struct {
	Step   int64  `json:"step"`
	Prompt string `json:"prompt"`
	Tool   string `json:"tool"`
	Query  string `json:"query,omitempty"` // that the call must have
}

// Answered is the answer to the follow-up (original: followUpCompleted). An observed answer replaces a declared one.
type Answered struct {
	Step     int64 `json:"step"`
	Observed bool  `json:"observed"` // the turn is about the requested call and uses its result
}

func newSession(key Key, by Caller, task Task, now time.Time) Session {
	return Session{
		ID: random(idBytes), Nonce: random(nonceBytes), Key: key.String(), Caller: by, Task: task, State: Pending,
		Opened: now.UnixMilli(),
	}
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails; it ends the process instead
	return hex.EncodeToString(b)
}

// Expires returns when the session expires.
func (s *Session) Expires() time.Time { return time.UnixMilli(s.Opened).Add(sessionLifetime) }

// open refuses a session that has ended, and marks an expired one.
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
	return refusal.New("verification_closed", "the verification has %s", s.State)
}

func (s *Session) served(tool, query, input, output, canary string) error {
	if len(s.Calls) == maxCalls {
		return refusal.New("content_too_large", "the verification has had %d calls, which is the limit", maxCalls)
	}
	s.Step++
	s.Calls = append(s.Calls, Call{Step: s.Step, Tool: tool, Query: query, Input: input, Output: output, Canary: canary})
	return nil
}

// take records a turn. ModeObserved refuses one without support in the node's record; a better one can follow.
func (s *Session) take(t Turn, by Caller, now time.Time, mode Mode) error {
	if err := t.check(); err != nil {
		return err
	}
	if len(s.Turns) == MaxTurns {
		return refusal.New("content_too_large", "the verification has %d turns, which is the limit", MaxTurns)
	}
	if length(t.Reasoning) < leastReasoning {
		return refusal.New("verification_turn", "the turn's reasoning has fewer than %d characters", leastReasoning)
	}
	if !evidence.IsHash(t.Hash) {
		return refusal.New("query_malformed", "the turn's hash is not a lowercase hex SHA-256")
	}
	seen, call := s.observe(t)
	if mode != ModeSeed {
		if err := s.demand(t, seen, now); err != nil {
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

func (s *Session) follow(t Turn, seen Taken, call *Call, mode Mode) {
	switch {
	case s.FollowUp == nil && len(s.Turns) >= s.Task.base(s.Early):
		s.Step++
		s.FollowUp = newFollowUp(s.Step, t)
	case s.FollowUp != nil && !s.Answered.Observed && s.FollowUp.answered(t, call, mode):
		s.Answered = Answered{seen.Step, s.FollowUp.observed(t, call)}
	}
}

func isHex(text string, n int) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == n && hex.EncodeToString(raw) == text
}
