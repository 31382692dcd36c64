package main

import (
	"fmt"

	"github.com/actionproof/mediator/reputation/accrual"
)

// course is the R of an agent at each midnight of the month, the first one before it.
type course [days + 1]float64

// tries is how many agents of a kind a course is the mean of.
const tries = 20

// alone returns the course of an agent of a kind that has a world for itself and does something at each midnight.
func alone(k *kind, do act) (c course) {
	for seed := range uint64(tries) {
		w := newWorld(seed)
		a := w.add(k, accrual.Agent{Owner: owner("own"), Subject: "agent:1"})
		w.live(func(today int, midnight int64) {
			if do != nil {
				do(w, a, today, midnight)
			}
		})
		if a.gone { // it goes on under its last name
			a = w.agents[len(w.agents)-1]
		}
		for d := range c {
			c[d] += a.rated(d).R / tries
		}
	}
	return c
}

// end is R at the end of the month.
func (c course) end() float64 { return c[days] }

// act is what happens at a midnight.
type act func(w *world, a *agent, today int, at int64)

// helper is an agent that does what an attack needs, and nothing else.
func (w *world) helper(of, subject string) *agent {
	id := accrual.Agent{Owner: of, Subject: subject}
	return &agent{Agent: id, kind: givenUp, random: w.random, log: must(accrual.NewAccount(accrual.Agent{Owner: owner("helper"), Subject: subject}))}
}

// loses lets an agent of each of so many owners dispute the agent, who is right.
func loses(owners int) act {
	return spread(owners, func(w *world, a, helper *agent, at int64) { w.dispute(helper, w.publish(a, at-hour, true), at) })
}

// sacrificed lets the agent dispute an agent of each of so many owners, who is wrong on purpose.
func sacrificed(owners int) act {
	return spread(owners, func(w *world, a, helper *agent, at int64) { w.dispute(a, w.publish(helper, at-hour, false), at) })
}

// both does both.
func both(owners int) act { return join(loses(owners), sacrificed(owners)) }

// join does several things.
func join(acts ...act) act {
	return func(w *world, a *agent, today int, at int64) {
		for _, do := range acts {
			do(w, a, today, at)
		}
	}
}

// spread does something with an agent of each owner, over the first twenty days.
func spread(owners int, do func(w *world, a, helper *agent, at int64)) act {
	return func(w *world, a *agent, today int, at int64) {
		for i := range owners {
			if i*20/owners == today {
				do(w, a, w.helper(owner(fmt.Sprint("other", i)), "agent:h"), at)
			}
		}
	}
}

// among does both with a hundred agents of one owner, or of none.
func among(of string) act {
	return func(w *world, a *agent, today int, at int64) {
		for i := range 5 {
			if today < 20 {
				h := w.helper(of, fmt.Sprint("agent:h", today, i))
				w.dispute(h, w.publish(a, at-hour, true), at)
				w.dispute(a, w.publish(h, at-hour, false), at)
			}
		}
	}
}

// on does something on one day, so often.
func on(when, often int, do func(w *world, a *agent, at int64)) act {
	return func(w *world, a *agent, today int, at int64) {
		for range often {
			if today == when {
				do(w, a, at)
			}
		}
	}
}

// lost is a dispute that the agent has lost.
func lost(w *world, a *agent, at int64) {
	w.dispute(w.helper(owner("other"), "agent:h"), w.publish(a, at-hour, false), at)
}

// wrong is a dispute that the agent opens and loses.
func wrong(w *world, a *agent, at int64) {
	w.dispute(a, w.publish(w.helper(owner("other"), "agent:h"), at-hour, true), at)
}

// spams is a breach of a rule against spam.
func spams(_ *world, a *agent, at int64) { a.violate(at) }

// anew lets the agent give up its name.
func anew(w *world, a *agent, _ int64) {
	a.gone = true
	w.add(a.kind, accrual.Agent{Owner: a.Owner, Subject: a.Subject + "x"})
}

// attack is one row of the table.
type attack struct {
	name               string
	identities, owners int // besides the agent and its owner
	kind               *kind
	do                 act
}

// middle is the day on which something happens once.
const middle = 12

// hasty makes more sessions than anybody else.
var hasty = &kind{name: "hasty", sessions: 50, score: colluding.score, signals: colluding.signals, rests: 1, sound: 1, verified: 1}

// attacks are what somebody does who wants R to be higher, or that of another to be lower.
func attacks() (all []attack) {
	for _, n := range []int{1, 3, 10, 30, 100} {
		all = append(all, attack{fmt.Sprintf("agents of %d other owners dispute it, and lose", n), n, n, colluding, loses(n)})
	}
	for _, n := range []int{1, 3, 10, 30, 100} {
		all = append(all, attack{fmt.Sprintf("agents of %d other owners are wrong on purpose, and it disputes them", n), n, n, colluding, sacrificed(n)})
	}
	for _, n := range []int{1, 3, 10, 30, 100} {
		all = append(all, attack{fmt.Sprintf("both, with %d other owners", n), 2 * n, n, colluding, both(n)})
	}
	return append(all,
		attack{"both, with 100 agents of its own owner", 100, 0, colluding, among(owner("own"))},
		attack{"both, with 100 agents elsewhere", 100, 0, colluding, among("")},
		attack{"both, with 100 agents of one other owner", 100, 1, colluding, among(owner("other"))},
		attack{"50 sessions a day in place of 3", 0, 0, hasty, nil},
		attack{"it loses a dispute on day 12, and goes on", 0, 0, colluding, on(middle, 1, lost)},
		attack{"it loses ten on day 12, about ten signals, and goes on", 0, 0, colluding, on(middle, 10, lost)},
		attack{"it loses a dispute on day 12, and goes on under another name", 1, 0, colluding, join(on(middle, 1, lost), on(middle, 1, anew))},
		attack{"it breaks a rule against spam 8 times on day 12", 0, 0, colluding, on(middle, 8, spams)},
		attack{"it opens a dispute on day 12 and loses it", 0, 0, colluding, on(middle, 1, wrong)},
	)
}
