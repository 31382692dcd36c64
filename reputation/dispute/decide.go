package dispute

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Review returns the entry that marks a dispute as being judged.
func (b *Book) Review(id string, now time.Time) (Entry, error) {
	return b.checked(Entry{At: b.Time(now), Reviewing: &Reviewing{DisputeID: id}})
}

// Late reports whether the deadline of a dispute has passed.
func (b *Book) Late(id string, now time.Time) bool {
	d := b.disputes[id]
	return d != nil && b.Time(now) >= d.Deadline
}

// End returns the entry that ends a dispute by the finding of a [Trial].
func (b *Book) End(id string, f Finding, now time.Time) (Entry, error) {
	r := &Resolved{DisputeID: id, Finding: f, Resolver: ResolverRules}
	if b.Late(id, now) && f.Outcome == accrual.Inconclusive {
		r.Resolver = ResolverDeadline
	}
	return b.checked(Entry{At: b.Time(now), Resolved: r})
}

// Expire returns the entry that ends a dispute without a decision of the arbiter.
func (b *Book) Expire(id string, now time.Time) (Entry, error) {
	return b.End(id, Finding{Outcome: accrual.Inconclusive, Reason: ReasonNoArbiter}, now)
}

func (b *Book) checked(e Entry) (Entry, error) {
	if err := b.admits(e); err != nil {
		return Entry{}, fmt.Errorf("dispute: %w", err)
	}
	return e, nil
}

// Arbitrate returns the entry that ends a general dispute by an arbiter's decision. The caller has opened the decision
// with the pinned key, which must belong to neither party.
func (b *Book) Arbitrate(id string, decision evidence.Opened[Decision], arbiter ed25519.PublicKey,
	now time.Time) (Entry, error) {
	d, c := b.disputes[id], decision.Claims()
	switch {
	case d == nil:
		return Entry{}, refusal.New("not_found", "there is no dispute %.80q", id)
	case d.Type != TypeGeneral:
		return Entry{}, refusal.New("dispute_refused", "receipts decide a dispute of type %s; an arbiter cannot", d.Type)
	case c.DisputeID != id || c.Document != d.Document: // the id holds only half of the hash
		return Entry{},
			refusal.New("dispute_refused", "the decision names another dispute, or another document than the one filed")
	case d.Status == StatusResolved && d.Resolved.Decision == decision.Hash():
		return Entry{}, errDecided
	case d.Status == StatusResolved:
		return Entry{}, refusal.New("dispute_closed", "the dispute was resolved at %s by %s",
			time.Unix(d.ResolvedAt, 0).UTC().Format(time.RFC3339), d.Resolved.Resolver)
	case b.Late(id, now):
		return Entry{}, refusal.New("dispute_closed", "the deadline of the dispute was %s",
			time.Unix(d.Deadline, 0).UTC().Format(time.RFC3339))
	case belongs(arbiter, d.Challenger) || belongs(arbiter, d.Target):
		return Entry{}, refusal.New("dispute_refused", "the arbiter's key belongs to one of the two agents or its owner")
	}
	r := &Resolved{DisputeID: id, Resolver: ResolverArbiter, Decision: decision.Hash(), Finding: Finding{
		Outcome: c.Outcome, Reason: c.Reason, Malicious: c.Malicious, Inputs: []string{d.Document},
	}}
	return b.checked(Entry{At: b.Time(now), Resolved: r})
}

var errDecided = refusal.New("dispute_closed", "this decision has already resolved the dispute")

func belongs(key ed25519.PublicKey, id string) bool {
	a, err := accrual.ParseAgent(id)
	if err != nil {
		return true // an unknown agent could own any key
	}
	own, ok := a.Key()
	return ok && bytes.Equal(own, key) || a.Owner == interaction.Owner(key)
}

// Brought returns the tokens in the evidence of a challenge: receipts that the challenger brings along.
func (c Challenge) Brought() (tokens []string) {
	for word := range strings.FieldsSeq(c.Evidence) {
		if strings.Count(word, ".") == 2 && strings.HasPrefix(word, "eyJ") && len(tokens) < maxBrought {
			tokens = append(tokens, word)
		}
	}
	return tokens
}
