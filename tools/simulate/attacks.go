package main

import (
	"fmt"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
)

// tries is how many agents a figure is the mean of.
const tries = 8

// lives lets agents of a kind live for a month, each in a world of its own, and do something in the evenings. It
// returns the mean of R at midnights, given by how many days lie before them.
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

// helper is an agent that does what an attack needs, and nothing else.
func (w *world) helper(of, subject string) *agent {
	return w.know(helping, accrual.Agent{Owner: owner(of), Subject: subject})
}

// loses lets an agent of each of so many owners dispute the agent, who is right.
func loses(owners int) act {
	return spread(owners, func(w *world, a, helper *agent) { w.contest(helper, w.publish(a, true)) })
}

// sacrificed lets the agent dispute an agent of each of so many owners, who is wrong on purpose.
func sacrificed(owners int) act {
	return spread(owners, func(w *world, a, helper *agent) { w.contest(a, w.publish(helper, false)) })
}

// cites lets an agent of each of so many owners cite the agent.
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

// among does all three with a hundred agents that are named so.
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

// elsewhere names agents that no owner stands behind.
func elsewhere(w *world, i int) *agent {
	key := ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%*d", ed25519.SeedSize, i)).Public().(ed25519.PublicKey)
	return w.know(helping, accrual.Agent{Subject: evidence.DIDKey(key)})
}

// on does something on one day, so often.
func on(when, often int, do func(w *world, a *agent)) act {
	return func(w *world, a *agent, today int) {
		for range often {
			if today == when {
				do(w, a)
			}
		}
	}
}

// lost is a dispute that the agent has lost.
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
		w.file(a, s)
	}
}

// anew lets the agent give up its name.
func anew(w *world, a *agent) {
	a.gone = true
	w.add(a.kind, accrual.Agent{Owner: a.Owner, Subject: a.Subject + "x"})
}

// attack is what an agent does who wants R to be higher, or what lets it be lower.
type attack struct {
	name               string
	identities, owners int // besides the agent and its owner
	kind               *kind
	do                 act
	r                  float64 // at the end of the month
}

// collusion is an attack with any number of other owners.
type collusion struct {
	name       string
	identities int // for each owner
	with       func(owners int) act
	r          []float64 // at the end of the month, for each number of owners
}

// colluders are the numbers of owners. The first means that there is no attack.
var colluders = []int{0, 1, 3, 10, 30, 100}

// middle is the day on which something happens once.
const middle = 12

// hasty makes more sessions than anybody else.
var hasty = &kind{name: "hasty", sessions: 50, score: colluding.score, signals: colluding.signals, rests: 1, sound: 1}

// attacks plays them all.
func attacks() (all []attack, collusions []collusion) {
	collusions = []collusion{
		{name: "agents of other owners dispute it, and lose", identities: 1, with: loses},
		{name: "agents of other owners are wrong on purpose, and it disputes them", identities: 1, with: sacrificed},
		{name: "agents of other owners cite it", identities: 1, with: cites},
		{name: "all three", identities: 3, with: allThree},
	}
	without := end(colluding, nil)
	for i := range collusions {
		collusions[i].r = []float64{without}
		for _, n := range colluders[1:] {
			collusions[i].r = append(collusions[i].r, end(colluding, collusions[i].with(n)))
		}
	}
	all = []attack{
		{name: "all three, with 100 agents of its own owner", identities: 100, kind: colluding, do: among(of("own"))},
		{name: "all three, with 100 agents elsewhere", identities: 100, kind: colluding, do: among(elsewhere)},
		{name: "all three, with 100 agents of one other owner", identities: 100, owners: 1, kind: colluding,
			do: among(of("other"))},
		{name: "it has 50 sessions a day in place of 3", kind: hasty},
		{name: "it opens a dispute on day 12, and loses it", kind: colluding, do: on(middle, 1, wrong)},
		{name: "it opens one on day 12, loses it, and files the same 8 times again", kind: colluding,
			do: on(middle, 1, spams)},
		{name: "it loses a dispute against it on day 12, and goes on", kind: colluding, do: on(middle, 1, lost)},
		{name: "it loses ten on day 12, about ten signals, and goes on", kind: colluding, do: on(middle, 10, lost)},
		{name: "it loses one on day 12, and takes another name", identities: 1, kind: colluding,
			do: join(on(middle, 1, lost), on(middle, 1, anew))},
	}
	for i, a := range all {
		all[i].r = end(a.kind, a.do)
	}
	return all, collusions
}

// course is R over the month: before it and at the end of each day.
type course struct {
	name string
	r    []float64
}

// Two of the courses: an agent that loses a dispute in the middle of the month.
const goesOn, renamed = 2, 3

// courses plays them all.
func courses() []course {
	var midnights []int
	for d := range days + 1 {
		midnights = append(midnights, d)
	}
	return []course{
		{"a perfect agent", lives(perfect, nil, midnights...)},
		{"honest", lives(honest, nil, midnights...)},
		goesOn:  {"honest, loses on day 12", lives(honest, on(middle, 1, lost), midnights...)},
		renamed: {"and takes another name", lives(honest, join(on(middle, 1, lost), on(middle, 1, anew)), midnights...)},
		{"replays a script", lives(scripted, nil, midnights...)},
	}
}

// pays returns after how many days another name has more than the one that has lost; -1 if never.
func pays(all []course) int {
	for d := middle + 1; d <= days; d++ {
		if all[renamed].r[d] > all[goesOn].r[d] {
			return d - middle
		}
	}
	return -1
}
