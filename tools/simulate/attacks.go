package main

import (
	"fmt"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
)

// tries is the number of worlds behind a mean.
const tries = 8

// lives plays a month of an agent in several worlds and returns its mean R after the given numbers of days.
func lives(k *kind, do act, midnights ...int) []float64 {
	mean := make([]float64, len(midnights))
	for seed := range uint64(tries) {
		w := newWorld(seed)
		a := w.add(k, accrual.Agent{Owner: owner("own"), Subject: "agent:1"})
		w.live(func(today int) {
			if do != nil {
				do(w, a, today)
			}
		})
		a = w.agents[len(w.agents)-1] // under its last name
		for i, d := range midnights {
			mean[i] += a.rated(d).R / tries
		}
	}
	return mean
}

// end is R at the end of the month.
func end(k *kind, do act) float64 { return lives(k, do, days)[0] }

// act is what happens in an evening.
type act func(w *world, a *agent, today int)

// helper is an agent that only helps an attack.
func (w *world) helper(of, subject string) *agent {
	return w.know(helping, accrual.Agent{Owner: owner(of), Subject: subject})
}

// loses lets an agent of each other owner wrongly dispute the agent.
func loses(owners int) act {
	return spread(owners, func(w *world, a, helper *agent) { w.contest(helper, w.publish(a, true)) })
}

// sacrificed lets the agent dispute an agent of each other owner, who is wrong on purpose.
func sacrificed(owners int) act {
	return spread(owners, func(w *world, a, helper *agent) { w.contest(a, w.publish(helper, false)) })
}

// cites lets an agent of each other owner cite the agent.
func cites(owners int) act {
	return spread(owners, func(w *world, a, helper *agent) { w.publish(helper, true, a.String()) })
}

// allThree does all three.
func allThree(owners int) act { return join(loses(owners), sacrificed(owners), cites(owners)) }

// join does several things.
func join(acts ...act) act {
	return func(w *world, a *agent, today int) {
		for _, do := range acts {
			do(w, a, today)
		}
	}
}

// spread does something with an agent of each owner, over the first twenty days.
func spread(owners int, do func(w *world, a, helper *agent)) act {
	return func(w *world, a *agent, today int) {
		for i := range owners {
			if i*20/owners == today {
				do(w, a, w.helper(fmt.Sprint("other", i), w.id("agent:")))
			}
		}
	}
}

// among does all three with a hundred named agents.
func among(name func(w *world, i int) *agent) act {
	return func(w *world, a *agent, today int) {
		for i := 5 * today; i < min(5*today+5, 100); i++ {
			w.contest(name(w, i), w.publish(a, true))
			w.contest(a, w.publish(name(w, i), false))
			w.publish(name(w, i), true, a.String())
		}
	}
}

// of names agents of an owner.
func of(name string) func(w *world, i int) *agent {
	return func(w *world, i int) *agent { return w.helper(name, fmt.Sprint("agent:h", i)) }
}

// elsewhere names `did:key` agents.
func elsewhere(w *world, i int) *agent {
	key := ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%*d", ed25519.SeedSize, i)).Public().(ed25519.PublicKey)
	return w.know(helping, accrual.Agent{Subject: evidence.DIDKey(key)})
}

// on does something on one day, several times.
func on(when, often int, do func(w *world, a *agent)) act {
	return func(w *world, a *agent, today int) {
		for range often {
			if today == when {
				do(w, a)
			}
		}
	}
}

// lost is a dispute that the agent loses as the accused.
func lost(w *world, a *agent) {
	w.contest(w.helper("other", w.id("agent:")), w.publish(a, false))
}

// wrong is a dispute that the agent opens and loses.
func wrong(w *world, a *agent) {
	w.contest(a, w.publish(w.helper("other", "agent:h"), true))
}

// spams are a dispute that the agent opens and loses, and eight times the same again.
func spams(w *world, a *agent) {
	s := w.publish(w.helper("other", "agent:h"), true)
	w.contest(a, s)
	for range 8 {
		w.file(a, s, dispute.TypeTiming)
	}
}

// anew lets the agent give up its name.
func anew(w *world, a *agent) {
	a.gone = true
	w.add(a.kind, accrual.Agent{Owner: a.Owner, Subject: a.Subject + "x"})
}

// attack is an event that may raise or lower R.
type attack struct {
	name   string
	owners int // besides its own
	kind   *kind
	do     act
	r      float64 // at the end of the month
}

// collusion is an attack with any number of other owners.
type collusion struct {
	name string
	with func(owners int) act
	r    []float64 // at the end of the month, for each number of owners
}

// colluders are the numbers of other owners. 0 is no attack.
var colluders = []int{0, 1, 3, 10, 100}

// middle is the day of single events.
const middle = 12

// attacks plays them all.
func attacks() (all []attack, collusions []collusion) {
	collusions = []collusion{
		{name: "dispute it and lose", with: loses},
		{name: "lose to it on purpose", with: sacrificed},
		{name: "cite it", with: cites},
		{name: "all three", with: allThree},
	}
	without := end(colluding, nil)
	for i := range collusions {
		collusions[i].r = []float64{without}
		for _, n := range colluders[1:] {
			collusions[i].r = append(collusions[i].r, end(colluding, collusions[i].with(n)))
		}
	}
	all = []attack{
		{name: "all three by 100 agents of its own owner", kind: colluding, do: among(of("own"))},
		{name: "all three by 100 `did:key` agents", kind: colluding, do: among(elsewhere)},
		{name: "all three by 100 agents of one other owner", owners: 1, kind: colluding,
			do: among(of("other"))},
		{name: "50 sessions a day instead of 3", kind: hasty},
		{name: "loses a dispute that it raised", kind: colluding, do: on(middle, 1, wrong)},
		{name: "the same, and files it 8 times more", kind: colluding,
			do: on(middle, 1, spams)},
		{name: "loses a dispute against it", kind: colluding, do: on(middle, 1, lost)},
		{name: "loses ten, about ten signals", kind: colluding, do: on(middle, 10, lost)},
		{name: "loses one and takes a new name", kind: colluding,
			do: join(on(middle, 1, lost), on(middle, 1, anew))},
	}
	for i, a := range all {
		all[i].r = end(a.kind, a.do)
	}
	return all, collusions
}

// pays returns after how many days an honest agent that took a new name after a lost dispute has more than one that did
// not; -1 if never.
func pays() int {
	var midnights []int
	for d := middle + 1; d <= days; d++ {
		midnights = append(midnights, d)
	}
	stays := lives(honest, on(middle, 1, lost), midnights...)
	for i, renamed := range lives(honest, join(on(middle, 1, lost), on(middle, 1, anew)), midnights...) {
		if renamed > stays[i] {
			return i + 1
		}
	}
	return -1
}
