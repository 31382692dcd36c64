package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Identity distinguishes a ledger from others and from its own older copies.
type Identity struct {
	ID       string `json:"id"`       // random, made with the ledger
	Mark     int64  `json:"mark"`     // rises with every record; pruning does not lower it
	Accepted int64  `json:"accepted"` // how often an operator has accepted it in place of another
}

func (i Identity) String() string { return fmt.Sprintf("ledger %s, mark %d", i.ID, i.Mark) }

// Acceptance records that an operator accepted the ledger in place of another, or of a later state of itself.
type Acceptance struct {
	At     time.Time `json:"at"`
	Was    Identity  `json:"was"` // the identity that the sidecar saw last
	Found  Identity  `json:"found"`
	Reason string    `json:"reason"`
}

func (a Acceptance) String() string {
	was := "one whose identity could not be read"
	if a.Was.ID != "" {
		was = a.Was.String()
	}
	return fmt.Sprintf("%s accepted %s in the place of %s: %s", a.At.Format(time.RFC3339), a.Found, was, a.Reason)
}

// Identified is a store with an identity. It is safe for concurrent use.
type Identified interface {
	Store
	Identity(ctx context.Context) (Identity, error)
	// Accept keeps an acceptance. The earlier ledger's used keys are unknown, so keys that expire by until are refused
	// from now on.
	Accept(ctx context.Context, a Acceptance, until time.Time) error
	// Acceptances returns all acceptances, oldest first.
	Acceptances(ctx context.Context) ([]Acceptance, error)
}

// Follows reports whether s is a later state of the ledger last: the same one, no older, or one accepted in its place
// since. now is the identity of s.
func Follows(ctx context.Context, s Identified, now, last Identity) (bool, error) {
	same := now.ID == last.ID
	switch {
	case same && now.Accepted == last.Accepted:
		return now.Mark >= last.Mark, nil
	case now.Accepted == 0 || same && now.Accepted < last.Accepted:
		return false, nil
	}
	all, err := s.Acceptances(ctx)
	return slices.ContainsFunc(all, func(a Acceptance) bool {
		return a.Was.ID == last.ID && a.Was.Accepted >= last.Accepted
	}), err
}
