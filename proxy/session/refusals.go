package session

import (
	"encoding/json"
	"slices"
	"time"
)

// MaxRefusals bounds a session's memory of refusals.
const MaxRefusals = 16

// Refusal is why a call failed, as the agent may read it.
type Refusal struct {
	Time   time.Time `json:"time"`
	Post   string    `json:"post,omitempty"` // id of the call's record
	Method string    `json:"method,omitempty"`
	Host   string    `json:"host,omitempty"` // with port
	Path   string    `json:"path,omitempty"`
	// Message is the MCP message or GraphQL operation, if the rules read it.
	Message string `json:"message,omitempty"`
	State   string `json:"state"` // of the record; refused: nothing was sent
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy"`
	// Rule is the name and the purpose of the call's rule, if it has a purpose.
	Rule json.RawMessage `json:"rule,omitempty"`
}

// Remember keeps a refusal and drops the oldest beyond MaxRefusals.
func (s *Session) Remember(r Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refusals) == MaxRefusals {
		s.refusals = slices.Delete(s.refusals, 0, 1)
	}
	s.refusals = append(s.refusals, r)
}

// Refusals returns the last refusals, newest first.
func (s *Session) Refusals() []Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := append([]Refusal{}, s.refusals...)
	slices.Reverse(last)
	return last
}
