package verification

import (
	"context"
	"errors"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// MaxOverviews bounds how many verifications [Service.Overviews] returns.
const MaxOverviews = 100

// Overview is what an operator is shown of a verification. It has nothing that would let the operator finish it.
type Overview struct {
	Session string `json:"session"`
	State   State  `json:"state"`
	// Subject is who calls: observed if a sidecar named it (SubjectBasis), else an address.
	Subject      string `json:"subject"`
	SubjectBasis string `json:"subjectBasis"`
	Key          string `json:"key"` // in hex
	Task         string `json:"task"`
	Opened       int64  `json:"opened"` // Unix milliseconds
	// Calls are those that the node has served, and Turns what it saw of the turns that it has taken. Both are numbered together by their step.
	Calls    []ServedCall `json:"calls"`
	Turns    []Taken      `json:"turns"`
	FollowUp string       `json:"followUp,omitempty"` // the question; empty until it is asked
	Answered Answered     `json:"answered"`
}

// ServedCall is one call that the node has served. What the agent asked is not shown.
type ServedCall struct {
	Step int64  `json:"step"`
	Tool string `json:"tool"`
	Turn int    `json:"turn"` // the number, from 1, of the turn about it; 0 if there is none
}

// Overviews returns the verifications that were opened last, the latest first. One that is over is known for an hour from its beginning.
func (s *Service) Overviews(ctx context.Context) ([]Overview, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	sessions, err := s.store.Sessions(ctx, MaxOverviews)
	if err != nil {
		return nil, err
	}
	all := make([]Overview, 0, len(sessions))
	for _, one := range sessions {
		all = append(all, overviewOf(one, now))
	}
	return all, nil
}

// Overview returns one verification.
func (s *Service) Overview(ctx context.Context, id string) (Overview, error) {
	if !isHex(id, idBytes) {
		return Overview{}, errNotKnown()
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return Overview{}, err
	}
	session, err := s.store.Session(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return Overview{}, errNotKnown()
	}
	return overviewOf(session, now), err
}

func errNotKnown() error {
	return refusal.New("not_found", "the node knows no such verification; it forgets those that are over after an hour")
}

func overviewOf(s Session, now time.Time) Overview {
	_ = s.open(now) // it sets the state of one whose time is over
	o := Overview{
		Session: s.ID, State: s.State, Subject: s.Caller.Subject, SubjectBasis: s.Caller.basis(), Key: s.Key, Task: s.Task.ID, Opened: s.Opened,
		Calls: make([]ServedCall, 0, len(s.Calls)), Turns: append([]Taken{}, s.Turns...), Answered: s.Answered,
	}
	for _, c := range s.Calls {
		o.Calls = append(o.Calls, ServedCall{c.Step, c.Tool, c.Turn})
	}
	if s.FollowUp != nil {
		o.FollowUp = s.FollowUp.Prompt
	}
	return o
}
