package accrual

import (
	"errors"
	"fmt"
)

// What an agent's log has for its rating alone (package rating). It changes nothing of the reputation but where the log stands.

// Signal is a signal of the agent whose window has closed, with what the node had found of it when it was published: no word of the agent.
type Signal struct {
	ID           string `json:"signal_id"`
	Trace        bool   `json:"trace"`        // it rests on receipts of the agent's, all of which the node held
	Sources      bool   `json:"sources"`      // one of its receipts is of an answered call to a model, at a host that the node believes
	Context      bool   `json:"context"`      // a sidecar has signed it: the session and the event that it came from are known
	Verification bool   `json:"verification"` // the agent had passed a verification
	Timestamp    bool   `json:"timestamp"`    // its time was about that of the node
	Schema       bool   `json:"schema"`       // it was a signal by the published schema
}

// Cited is a signal of another agent, whose window has closed, that rests on receipts of this one. Of each owner the first one is entered.
type Cited struct {
	By       string `json:"by"` // the other agent's id
	SignalID string `json:"signal_id"`
}

// Violation is a breach of a rule against spam. Package dispute names the rules.
type Violation struct {
	Rule string `json:"rule"`
}

func (s *Signal) check() error {
	if !named(s.ID, maxName) {
		return errors.New("accrual: a signal lacks its id, or it is too long")
	}
	return nil
}

func (c *Cited) check() error {
	if !named(c.SignalID, maxName) {
		return errors.New("accrual: the signal that cites the agent lacks its id, or it is too long")
	}
	if _, err := ParseAgent(c.By); err != nil {
		return fmt.Errorf("accrual: the agent is cited by nobody: %w", err)
	}
	return nil
}

func (v *Violation) check() error {
	if !named(v.Rule, maxName) {
		return errors.New("accrual: a violation is of no rule, or its name is too long")
	}
	return nil
}
