package match

import (
	"context"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Purpose says what a rule is for. Agents can read it.
type Purpose struct {
	Comment string `json:"comment,omitempty"`
	Owner   string `json:"owner,omitempty"` // who answers for the rule
	// Expires is when the rule stops to allow calls; zero: never.
	Expires time.Time `json:"expires,omitzero"`
}

// IsZero reports whether nothing is said about the rule.
func (p Purpose) IsZero() bool { return p == Purpose{} }

// Check refuses a call by the rule of this name once it has expired (rule_expired).
func (p Purpose) Check(rule string, now time.Time) error {
	if p.Expires.IsZero() || now.Before(p.Expires) {
		return nil
	}
	owner := ""
	if p.Owner != "" {
		owner = "; its owner is " + p.Owner
	}
	return refusal.New("rule_expired", "the rule %s expired at %s%s", rule, p.Expires.UTC().Format(time.RFC3339), owner)
}

// Until returns a context that ends when the rule of this name expires, with that refusal as its cause.
func (p Purpose) Until(ctx context.Context, rule string, now time.Time) (context.Context, context.CancelFunc) {
	if p.Expires.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, p.Expires.Sub(now), p.Check(rule, p.Expires))
}
