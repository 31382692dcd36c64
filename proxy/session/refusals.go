package session

import (
	"slices"
	"time"
)

// MaxRefusals bounds the refusals that a session remembers.
const MaxRefusals = 16

// Refusal is why a call of a session failed, as its agent may read it.
type Refusal struct {
	Time   time.Time `json:"time"`
	Post   string    `json:"post,omitempty"` // the id of the call's record
	Method string    `json:"method,omitempty"`
	Host   string    `json:"host,omitempty"` // with the port
	Path   string    `json:"path,omitempty"`
	State  string    `json:"state"` // of the record; refused means that nothing was sent
	Code   string    `json:"code"`
	Detail string    `json:"detail"`
	Remedy string    `json:"remedy"`
}

// Remember keeps a refusal, in place of the oldest where there are MaxRefusals.
func (s *Session) Remember(r Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refusals) == MaxRefusals {
		s.refusals = slices.Delete(s.refusals, 0, 1)
	}
	s.refusals = append(s.refusals, r)
}

// Refusals returns the last refusals, the newest first.
func (s *Session) Refusals() []Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := append([]Refusal{}, s.refusals...)
	slices.Reverse(last)
	return last
}
