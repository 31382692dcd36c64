package main

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

// people makes the thousand agents.
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

// month plays a month of the thousand.
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

// look lets an agent check some signals of others.
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

// rename gives an agent a new name.
func (w *world) rename(a *agent) {
	w.add(a.kind, accrual.Agent{Owner: a.Owner, Subject: a.Subject + "x"})
	a.kind = givenUp
}

// rings are the colluding agents by owner. The first of each profits from the others.
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

// collude lets one helper of each owner a day lose to a profiting agent of another owner, alternately as challenger and
// as target.
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
