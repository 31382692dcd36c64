package verification

import (
	"context"
	"errors"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// MaxOverviews bounds how many verifications [Service.Overviews] returns.
const MaxOverviews = 100

// Overview is an operator's view of a verification, without anything that would help to finish it.
type Overview struct {
	Session string `json:"session"`
	State   State  `json:"state"`
	// Subject is the caller: observed if a sidecar named it (SubjectBasis), else an address.
	Subject      string `json:"subject"`
	SubjectBasis string `json:"subjectBasis"`
	Key          string `json:"key"` // in hex
	Task         string `json:"task"`
	Opened       int64  `json:"opened"` // Unix milliseconds
	// Calls and Turns are numbered together by their steps.
	Calls    []ServedCall `json:"calls"`
	Turns    []Taken      `json:"turns"`
	FollowUp string       `json:"followUp,omitempty"` // the question, once asked
	Answered Answered     `json:"answered"`
}

// ServedCall is a served call without the agent's arguments.
type ServedCall struct {
	Step int64  `json:"step"`
	Tool string `json:"tool"`
	Turn int    `json:"turn"` // number of the turn about it, from 1, or 0
}

// Overviews returns the latest verifications, newest first. They are forgotten an hour after their start.
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
	return refusal.New("not_found", "the node has no such verification; it forgets them an hour after their start")
}

func overviewOf(s Session, now time.Time) Overview {
	_ = s.open(now) // marks an expired session
	o := Overview{
		Session: s.ID, State: s.State, Subject: s.Caller.Subject, SubjectBasis: s.Caller.basis(), Key: s.Key, Task: s.Task.ID,
		Opened: s.Opened,
		Calls:  make([]ServedCall, 0, len(s.Calls)), Turns: append([]Taken{}, s.Turns...), Answered: s.Answered,
	}
	for _, c := range s.Calls {
		o.Calls = append(o.Calls, ServedCall{c.Step, c.Tool, c.Turn})
	}
	if s.FollowUp != nil {
		o.FollowUp = s.FollowUp.Prompt
	}
	return o
}
