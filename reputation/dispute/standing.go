package dispute

import (
	"cmp"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Standing is what an agent can lose, in days. It grows by one a day from 0 at the agent's registration to MaxStanding.
// A challenger needs Stake of it, so that a new key costs as much as a lost dispute. Opening a dispute costs one, losing
// it Stake more. Winning against another owner (did:key agents are one) regains a challenger two, a target one: never
// more than the agent has lost, as it is no older. So accusations cost time, and right ones nothing.
const (
	MaxStanding = 21
	Stake       = 7
)

const (
	day = int64(24 * time.Hour / time.Second)
	// kept is the time for which the book remembers what has ended.
	kept = 30 * day
)

// Standing returns the standing of an agent, in whole days; it is negative after lost disputes.
func (b *Book) Standing(id string, registered, now time.Time) int64 {
	s := b.standing(id, registered.Unix(), b.Time(now))
	return (s - (s%day+day)%day) / day
}

// standing is in seconds.
func (b *Book) standing(id string, registered, at int64) int64 {
	from := registered
	if a := b.agents[id]; a != nil {
		from = max(from, a.from)
	}
	return min(at-from, MaxStanding*day)
}

// spend takes days of an agent's standing.
func (b *Book) spend(id string, registered, at, days int64) {
	a := b.of(id)
	a.from, a.acted = at-b.standing(id, registered, at)+days*day, at
}

// wait returns the seconds until an agent may open a dispute.
func (b *Book) wait(id string, by By, now time.Time) int64 {
	return max(0, Stake*day-b.standing(id, by.Registered.Unix(), b.Time(now)))
}

// tally counts by agent, and by owner for all its agents.
type tally map[string]int

func (t tally) add(id string, n int) {
	for _, key := range []string{id, OwnerOf(id)} {
		if t[key] += n; t[key] == 0 {
			delete(t, key)
		}
	}
}

// full refuses one more for an agent with most, or whose owner has [OfOneOwner] times as many. Agents without a sidecar
// share that bound by their standing: anyone can have any number of keys.
func (b *Book) full(t tally, id, what string, most int, by By, now time.Time) error {
	owner := OwnerOf(id)
	if owner != strangers {
		if t[id] >= most {
			return refusal.New("too_many_open", "the agent has %d %s; at most %d are allowed", t[id], what, most)
		}
		if all := t[owner]; all >= most*OfOneOwner {
			return refusal.New("too_many_open", "the owner's agents have %d %s together; at most %d are allowed", all, what,
				most*OfOneOwner)
		}
		return nil
	}
	own := b.weight(id, by.Registered.Unix(), now)
	sum := own
	for other := range t {
		if a := b.agents[other]; a != nil && other != id && strings.HasPrefix(other, strangers) {
			sum += b.weight(other, a.registered, now)
		}
	}
	if share := min(float64(most), float64(most*OfOneOwner)*own/sum); float64(t[id]+1) > share {
		return refusal.New("too_many_open",
			"the agent has %d %s; agents without a sidecar share a bound by their standing, and its share is %.0f", t[id], what,
			share)
	}
	return nil
}

// weight is at least that of an hour.
func (b *Book) weight(id string, registered int64, now time.Time) float64 {
	return float64(max(b.standing(id, registered, b.Time(now)), day/24))
}

// strangers is the owner of all agents without a sidecar: anyone can have such agents.
const strangers = "did:key"

// OwnerOf names the owner that an agent's bounds count for. All agents without a sidecar share one.
func OwnerOf(id string) string {
	agent, _ := accrual.ParseAgent(id) // an invalid id has no owner
	return cmp.Or(agent.Owner, strangers)
}
