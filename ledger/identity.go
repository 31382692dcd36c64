package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Identity tells one ledger from another, and an older copy of a ledger from the ledger itself.
type Identity struct {
	ID       string `json:"id"`       // random, made with the ledger
	Mark     int64  `json:"mark"`     // rises with every record, and is not lowered by pruning
	Accepted int64  `json:"accepted"` // how often an operator has accepted the ledger in the place of another
}

// String describes the ledger for an operator.
func (i Identity) String() string { return fmt.Sprintf("ledger %s, mark %d", i.ID, i.Mark) }

// Acceptance is kept in a ledger that an operator has accepted in place of another, or of a later state of itself.
type Acceptance struct {
	At     time.Time `json:"at"`
	Was    Identity  `json:"was"` // what the sidecar had seen last
	Found  Identity  `json:"found"`
	Reason string    `json:"reason"`
}

// String describes the acceptance for an operator.
func (a Acceptance) String() string {
	was := "one whose identity could not be read"
	if a.Was.ID != "" {
		was = a.Was.String()
	}
	return fmt.Sprintf("%s accepted %s in the place of %s: %s", a.At.Format(time.RFC3339), a.Found, was, a.Reason)
}

// Identified is a store that can be told from others. Its methods are safe for concurrent use.
type Identified interface {
	Store
	// Identity returns the durable identity of the ledger.
	Identity(ctx context.Context) (Identity, error)
	// Accept keeps an acceptance. The used keys of the earlier ledger are unknown: keys that expire by a time are refused
	// from then on.
	Accept(ctx context.Context, a Acceptance, until time.Time) error
	// Acceptances returns what Accept has kept, the first first.
	Acceptances(ctx context.Context) ([]Acceptance, error)
}

// Follows reports whether s can have become of the ledger last: the same one, no older, or one accepted in its place
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
