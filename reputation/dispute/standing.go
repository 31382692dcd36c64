package dispute

import (
	"cmp"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Standing is what an agent can lose, in days. It grows by one a day from 0 at the agent's registration to MaxStanding.
// A challenger needs Stake of it, so that a new key costs as much as a lost dispute. Opening a dispute costs one,
// losing it Stake more. Winning against another owner (did:key agents are one) regains a challenger two, a target one:
// never more than the agent has lost, as it is no older. So accusations cost time, and right ones nothing.
const (
	MaxStanding = 21
	Stake       = 7
)

const day = int64(24 * time.Hour / time.Second)

// Standing returns the standing of an agent, in whole days; it is negative after lost disputes.
func (b *Book) Standing(id string, registered, now time.Time) int64 {
	s := b.standing(id, registered.Unix(), b.Time(now))
	return (s - (s%day+day)%day) / day
}

// standing is in seconds.
func (b *Book) standing(id string, registered, at int64) int64 {
	return b.agent(id).standing(registered, at)
}

func (p party) standing(registered, at int64) int64 {
	return min(at-max(registered, p.From), MaxStanding*day)
}

// spend takes days of an agent's standing.
func (b *Book) spend(id string, registered, at, days int64) {
	b.change(rowAgent+id, func(p *party) { p.From, p.Acted = at-p.standing(registered, at)+days*day, at })
}

// wait returns the seconds until an agent may open a dispute.
func (b *Book) wait(id string, by By, now time.Time) int64 {
	return max(0, Stake*day-b.standing(id, by.Registered.Unix(), b.Time(now)))
}

// tally counts what an agent or an owner has open.
type tally struct {
	Count int64 `json:"count"`
	// Weight is the standing of the agents that have something open, as of when this last changed; in seconds.
	Weight int64 `json:"weight"`
}

func openSignals(p *party) *tally { return &p.Open }
func accusing(p *party) *tally    { return &p.Accusing }

// count adds to a tally of an agent, and to that of its owner.
func (b *Book) count(id string, of func(*party) *tally, n int64) {
	var before, now tally
	b.change(rowAgent+id, func(p *party) {
		t := of(p)
		before = *t
		if *t = (tally{Count: t.Count + n}); t.Count > 0 {
			t.Weight = p.weight(p.Registered, b.state.Last)
		}
		now = *t
	})
	b.change(rowOwner+OwnerOf(id), func(p *party) {
		t := of(p)
		t.Count, t.Weight = t.Count+n, t.Weight+now.Weight-before.Weight
	})
}

// full refuses one more for an agent with most, or whose owner has [OfOneOwner] times as many. Agents without a sidecar
// share that bound by their standing: anyone can have any number of keys.
func (b *Book) full(of func(*party) *tally, id, what string, most int64, by By, now time.Time) error {
	owner, p := OwnerOf(id), b.agent(id)
	all := cmp.Or(loaded[party](b, rowOwner+owner), new(party))
	own, together := *of(&p), *of(all)
	if owner != strangers {
		if own.Count >= most {
			return refusal.New("too_many_open", "the agent has %d %s; at most %d are allowed", own.Count, what, most)
		}
		if together.Count >= most*OfOneOwner {
			return refusal.New("too_many_open", "the owner's agents have %d %s together; at most %d are allowed",
				together.Count, what, most*OfOneOwner)
		}
		return nil
	}
	weight := p.weight(by.Registered.Unix(), b.Time(now))
	sum := together.Weight - own.Weight + weight
	share := min(float64(most), float64(most*OfOneOwner)*float64(weight)/float64(sum))
	if float64(own.Count+1) > share {
		return refusal.New("too_many_open",
			"the agent has %d %s; agents without a sidecar share a bound by their standing, and its share is %.0f", own.Count,
			what, share)
	}
	return nil
}

// weight is at least that of an hour.
func (p party) weight(registered, at int64) int64 { return max(p.standing(registered, at), day/24) }

// strangers is the owner of all agents without a sidecar: anyone can have such agents.
const strangers = "did:key"

// OwnerOf names the owner that an agent's bounds count for. All agents without a sidecar share one.
func OwnerOf(id string) string {
	agent, _ := accrual.ParseAgent(id) // an invalid id has no owner
	return cmp.Or(agent.Owner, strangers)
}
