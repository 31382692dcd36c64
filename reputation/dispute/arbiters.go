package dispute

import (
	"bytes"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Arbiter decides general disputes, with others, by its offline key.
type Arbiter struct {
	Root evidence.Root
	// Owner is the thumbprint of the key registry whose agents it works for, or empty. It decides no dispute of them.
	Owner string
}

// Panel are arbiters, each with a key id of its own. What more than half of them decide holds.
type Panel []Arbiter

// Court are the arbiters of a node. Appeals go to the second panel; without one there are none.
type Court struct{ First, Appeal Panel }

// Roots returns the keys of all arbiters.
func (c Court) Roots() (roots []evidence.Root) {
	for _, a := range slices.Concat(c.First, c.Appeal) {
		roots = append(roots, a.Root)
	}
	return roots
}

func (c Court) of(d *State) Panel {
	if d.Appealed {
		return c.Appeal
	}
	return c.First
}

// Vote returns the entry of an arbiter's decision, which the caller has opened with a key of the court.
func (b *Book) Vote(id string, court Court, decision evidence.Opened[Decision], now time.Time) (Entry, error) {
	d, c := b.dispute(id), decision.Claims()
	switch {
	case d == nil:
		return Entry{}, refusal.New("not_found", "there is no dispute %.80q", id)
	case d.Type != TypeGeneral:
		return Entry{}, refusal.New("dispute_refused", "receipts decide a dispute of type %s; arbiters cannot", d.Type)
	case c.DisputeID != id || c.Document != d.Document: // the id holds only half of the hash
		return Entry{},
			refusal.New("dispute_refused", "the decision names another dispute, or another document than the one filed")
	case d.Status == StatusResolved:
		return Entry{}, refusal.New("dispute_closed", "the dispute was resolved at %s by %s",
			time.Unix(d.ResolvedAt, 0).UTC().Format(time.RFC3339), d.Resolved.Resolver)
	case b.Late(id, now):
		return Entry{}, refusal.New("dispute_closed", "the deadline of the dispute was %s",
			time.Unix(d.Deadline, 0).UTC().Format(time.RFC3339))
	}
	panel := court.of(d)
	at := slices.IndexFunc(panel, func(a Arbiter) bool { return a.Root.KeyID == decision.KeyID() })
	switch {
	case at < 0 || c.Issuer != decision.KeyID():
		return Entry{}, refusal.New("dispute_refused", "the arbiter belongs to another panel, or signs as another arbiter")
	case panel[at].partial(d.Challenger) || panel[at].partial(d.Target):
		return Entry{}, refusal.New("dispute_refused", "the arbiter belongs to one of the two agents or its owner")
	case slices.ContainsFunc(d.Votes, func(v Voted) bool { return v.Arbiter == decision.KeyID() }):
		return Entry{}, refusal.New("dispute_closed", "the arbiter has decided this dispute already")
	}
	return Entry{At: b.Time(now), Voted: &Voted{
		DisputeID: id, Arbiter: decision.KeyID(), Decision: decision.Hash(), Outcome: c.Outcome, Reason: c.Reason,
		Malicious: c.Malicious,
	}}, nil
}

// Has reports whether a decision is noted, or has resolved the dispute.
func (d State) Has(decision string) bool {
	return slices.Contains(d.Resolved.Decisions, decision) ||
		slices.ContainsFunc(d.Votes, func(v Voted) bool { return v.Decision == decision })
}

// Decided returns the entry that ends a dispute as most of its panel have decided, even after the deadline.
func (b *Book) Decided(id string, court Court, r Rules, now time.Time) (e Entry, ok bool) {
	d := b.dispute(id)
	if d == nil || d.Status == StatusResolved {
		return e, false
	}
	panel := court.of(d)
	votes := slices.DeleteFunc(slices.Clone(d.Votes), func(v Voted) bool { // of one that has left the panel
		return !slices.ContainsFunc(panel, func(a Arbiter) bool { return a.Root.KeyID == v.Arbiter })
	})
	for _, first := range votes {
		agree := slices.DeleteFunc(slices.Clone(votes), func(v Voted) bool {
			return v.Outcome != first.Outcome || v.Malicious != first.Malicious
		})
		if 2*len(agree) <= len(panel) {
			continue
		}
		resolved := &Resolved{DisputeID: id, Resolver: ResolverArbiter, Finding: Finding{
			Outcome: first.Outcome, Reason: first.Reason, Malicious: first.Malicious, Inputs: []string{d.Document},
		}}
		for _, v := range agree {
			resolved.Decisions = append(resolved.Decisions, v.Decision)
		}
		slices.Sort(resolved.Decisions)
		if !d.Appealed && len(court.Appeal) > 0 {
			resolved.AppealUntil = b.Time(now) + seconds(r.Deadline)
		}
		return Entry{At: b.Time(now), Resolved: resolved}, true
	}
	return e, false
}

// appeal returns the entry of an appeal: a challenge by the loser that names the dispute's document.
func (b *Book) appeal(r Rules, c *Challenge, hash string, now time.Time) (id string, e *Entry, err error) {
	id = DisputeID(c.TargetReceipts[0])
	d := b.dispute(id)
	if d == nil || d.Document != c.TargetReceipts[0] {
		return "", nil, refusal.New("not_found", "there is no dispute about the document %s", c.TargetReceipts[0])
	}
	loser, winner := d.Challenger, d.Target
	if d.Resolved.Outcome == accrual.ChallengerWins {
		loser, winner = winner, loser
	}
	switch {
	case d.Appeal == hash:
		return id, nil, nil
	case d.Appealed || b.Time(now) >= d.Resolved.AppealUntil:
		return "", nil, refusal.New("dispute_closed", "the dispute %s cannot be appealed now", id)
	case d.Resolved.Outcome == accrual.Inconclusive || c.ChallengerID != loser || c.TargetID != winner:
		return "", nil, refusal.New("dispute_refused", "only the agent that has lost the dispute %s can appeal against it", id)
	}
	return id, &Entry{At: b.Time(now), Appealed: &Appealed{
		DisputeID: id, Document: hash, Deadline: b.Time(now) + seconds(r.Deadline),
	}}, nil
}

// partial reports whether the arbiter belongs to an agent or its owner.
func (a Arbiter) partial(id string) bool {
	agent, err := accrual.ParseAgent(id)
	own, ok := agent.Key()
	return err != nil || // an unknown agent could own any key
		ok && bytes.Equal(own, a.Root.Public) || agent.Owner == interaction.Owner(a.Root.Public) ||
		a.Owner != "" && a.Owner == OwnerOf(id)
}
