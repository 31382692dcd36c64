package main

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

// people makes the thousand agents: 600 honest of 100 owners, 200 lazy of 50, 100 that collude of 10, and 100 Sybils of
// one.
func people(seed uint64) *world {
	w := newWorld(seed)
	for _, g := range []struct {
		*kind
		owners, each int
	}{{honest, 100, 6}, {lazy, 50, 4}, {colluding, 10, 10}, {sybil, 1, 100}} {
		for o := range g.owners {
			for i := range g.each {
				w.add(g.kind, accrual.Agent{Owner: owner(fmt.Sprint(g.name, o)), Subject: fmt.Sprint("agent:", i)})
			}
		}
	}
	return w
}

// month lets the thousand live for a month.
func month(seed uint64) *world {
	w := people(seed)
	rings := w.rings()
	w.live(func(today int) {
		published := slices.Clone(w.today)
		for _, a := range slices.Clone(w.agents) {
			if a.gone && a.kind != givenUp {
				w.rename(a)
			}
			if !a.gone {
				w.look(a, published)
			}
		}
		w.collude(rings, today)
	})
	return w
}

// look lets an agent look at some signals of others, and dispute those that it takes for wrong.
func (w *world) look(a *agent, published []*signal) {
	for range poisson(a.random, a.kind.looks) {
		if len(published) == 0 {
			return
		}
		s := published[a.random.IntN(len(published))]
		takes := a.kind.mistakes
		if !s.sound {
			takes = a.kind.notices
		}
		if s.by.Owner != a.Owner && a.random.Float64() < takes {
			w.contest(a, s)
		}
	}
}

// rename lets an agent that has given up its name begin anew.
func (w *world) rename(a *agent) {
	w.add(a.kind, accrual.Agent{Owner: a.Owner, Subject: a.Subject + "x"})
	a.kind = givenUp
}

// rings are the agents of the owners that collude: the first of each is the one that shall profit, and the others are
// there to be used up.
func (w *world) rings() (rings [][]*agent) {
	for _, a := range w.agents {
		switch n := len(rings); {
		case a.kind != colluding:
		case n == 0 || rings[n-1][0].Owner != a.Owner:
			rings = append(rings, []*agent{a})
		default:
			rings[n-1] = append(rings[n-1], a)
		}
	}
	return rings
}

// collude lets one helper of each owner a day lose against an agent of another owner that shall profit: by turns as who
// disputes and as who is accused.
func (w *world) collude(rings [][]*agent, today int) {
	for i, ring := range rings {
		profits := rings[(i+1+today)%len(rings)][0]
		helper := ring[1+today%(len(ring)-1)]
		switch {
		case profits.Owner == helper.Owner:
		case today%2 == 0:
			w.contest(helper, w.publish(profits, true))
		default:
			w.contest(profits, w.publish(helper, false))
		}
	}
}
