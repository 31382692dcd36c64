package main

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

// people makes the thousand agents: 600 honest of 100 owners, 200 lazy of 50, 100 that collude of 10, and 100 Sybils of one.
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
	w.live(func(today int, midnight int64) {
		recent := slices.Clone(w.recent)
		for _, a := range slices.Clone(w.agents) {
			if a.gone && a.kind != givenUp {
				w.rename(a)
			}
			if a.gone {
				continue
			}
			w.look(a, recent, midnight)
		}
		rings.collude(w, today, midnight)
	})
	return w
}

// look lets an agent look at some signals of others, and dispute those that it takes for wrong.
func (w *world) look(a *agent, recent []*signal, at int64) {
	for range poisson(a.random, a.kind.looks) {
		if len(recent) == 0 {
			return
		}
		s := recent[a.random.IntN(len(recent))]
		takes := a.kind.mistakes
		if !s.sound {
			takes = a.kind.notices
		}
		if s.by.Owner != a.Owner && !s.by.gone && a.random.Float64() < takes {
			w.dispute(a, s, at)
		}
	}
}

// rename lets an agent that has given up its name begin anew.
func (w *world) rename(a *agent) {
	w.add(a.kind, accrual.Agent{Owner: a.Owner, Subject: a.Subject + "x"})
	a.kind = givenUp
}

// rings are the owners that collude: the first agent of each is the one that shall profit, and the others are there to be used up.
type rings [][]*agent

func (w *world) rings() (r rings) {
	byOwner := make(map[string]int)
	for _, a := range w.agents {
		if a.kind != colluding {
			continue
		}
		i, known := byOwner[a.Owner]
		if !known {
			i = len(r)
			byOwner[a.Owner] = i
			r = append(r, nil)
		}
		r[i] = append(r[i], a)
	}
	return r
}

// collude lets one helper of each owner a day lose against an agent of another owner that shall profit: by turns as who disputes and as who is accused.
func (r rings) collude(w *world, today int, at int64) {
	for i, ring := range r {
		profits := r[(i+1+today)%len(r)][0]
		helper := ring[1+today%(len(ring)-1)]
		if profits.Owner == helper.Owner {
			continue
		}
		if today%2 == 0 {
			w.dispute(helper, w.publish(profits, at-hour, true), at)
		} else {
			w.dispute(profits, w.publish(helper, at-hour, false), at)
		}
	}
}
