package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/tools/page"
)

// keys are the numbers of did:key agents that attack. All are registered when the month begins.
var keys = []int{1, 10, 100, 1000}

// errs is the share of wrong decisions of one arbiter.
const errs = 0.05

// bench are the arbiters of a world.
type bench struct {
	arbiters int
	appeals  bool // the loser appeals, to as many others
}

// wrong reports whether a dispute ends wrongly: most arbiters of the last panel err.
func (b bench) wrong(r *rand.Rand) bool {
	panel := func() bool {
		n := 0
		for range b.arbiters {
			if r.Float64() < errs {
				n++
			}
		}
		return 2*n > b.arbiters
	}
	return panel() && (!b.appeals || panel())
}

// accuse lets an agent dispute a sound signal before arbiters, if it may.
func (w *world) accuse(challenger *agent, s *signal, b bench) {
	if !w.may(challenger) {
		return
	}
	id, e := w.file(challenger, s, dispute.TypeGeneral)
	if e == nil || e.Opened == nil {
		return
	}
	f := dispute.Finding{Outcome: accrual.TargetWins, Reason: "it is so"}
	if b.wrong(w.random) {
		f.Outcome = accrual.ChallengerWins
	}
	decision := evidence.HashBytes([]byte(id))
	w.enter(dispute.Entry{At: w.now, Voted: &dispute.Voted{DisputeID: id, Arbiter: "arbiter", Decision: decision,
		Outcome: f.Outcome, Reason: f.Reason}})
	w.enter(dispute.Entry{At: w.now, Resolved: &dispute.Resolved{DisputeID: id, Resolver: dispute.ResolverArbiter,
		Finding: f, Decisions: []string{decision}}})
	w.accusations++
}

// attackers are n agents without a sidecar, registered today.
func (w *world) attackers(n int) (all []*agent) {
	for i := range n {
		a := elsewhere(w, i)
		a.since = start
		all = append(all, a)
	}
	return all
}

// fate is what a month of accusations does to one agent, as the mean of some worlds.
type fate struct{ r, lost, accusations float64 }

// accused lets n keys dispute everything that an agent publishes.
func accused(n int, b bench) (f fate) {
	for seed := range uint64(tries) {
		w := newWorld(seed)
		a := w.add(colluding, accrual.Agent{Owner: owner("own"), Subject: "agent:1"})
		all := w.attackers(n)
		w.live(func(int) {
			for _, s := range w.today {
				for _, one := range all {
					w.accuse(one, s, b)
				}
			}
		})
		f.r += a.rated(days).R / tries
		f.lost += float64(a.log.Reputation().ChallengesLost) / tries
		f.accusations += float64(w.accusations) / tries
	}
	return f
}

// itself lets an agent elsewhere publish each day, and n keys of its holder dispute that and lose. It returns R.
func itself(n int) float64 {
	w := newWorld(1)
	a := elsewhere(w, -1)
	all := w.attackers(n)
	w.live(func(int) {
		s := w.publish(a, true)
		for _, one := range all {
			w.accuse(one, s, bench{arbiters: 1})
		}
	})
	return a.rated(days).R
}

// room returns how many signals an agent elsewhere can have open that has the highest standing, while n keys of some
// age have as many as they can.
func room(n int, age int64) (open int) {
	w := newWorld(1)
	publish := func(a *agent) bool {
		e, err := w.book.Publish(dispute.DefaultRules, dispute.Publication{By: a.of(), Signal: dispute.Signal{
			SignalID: w.id("signal-"), AgentID: a.String(), Statement: "so it is", Horizon: dispute.HorizonShort, Timestamp: w.now,
		}}, w.clock())
		if err == nil {
			w.enter(*e)
		}
		return err == nil
	}
	for _, a := range w.attackers(n) {
		a.since = w.now - age
		for publish(a) {
			continue
		}
	}
	for a := elsewhere(w, -1); publish(a); open++ {
		continue
	}
	return open
}

// economics returns the table of docs/disputes.md.
func economics() string {
	columns := []string{"keys without an owner, registered for a month"}
	for _, n := range keys {
		columns = append(columns, fmt.Sprint(n))
	}
	t := page.NewTable(columns...)
	row := func(name string, cell func(n int) string) {
		cells := []string{name}
		for _, n := range keys {
			cells = append(cells, cell(n))
		}
		t.Row(cells...)
	}
	accusations := make(map[int]float64)
	for _, b := range []struct {
		name string
		bench
	}{
		{"one arbiter", bench{arbiters: 1}}, {"two of three", bench{arbiters: 3}},
		{"two of three, and the same on appeal", bench{arbiters: 3, appeals: true}},
	} {
		row("another's R falls to, with "+b.name, func(n int) string {
			f := accused(n, b.bench)
			accusations[n] = f.accusations
			return figure(f.r)
		})
	}
	row("disputes that the keys can lose", func(n int) string { return fmt.Sprintf("%.0f", accusations[n]) })
	row("R of one key that the others dispute and lose to", func(n int) string { return figure(itself(n)) })
	row("signals of 64 that another key can have open", func(n int) string { return fmt.Sprint(room(n, 30*day)) })
	row("the same, in the keys' first day", func(n int) string { return fmt.Sprint(room(n, day-1)) })
	return fmt.Sprintf("One arbiter errs in 1 of %.0f. Without an attack R is %s.\n\n%s\n", 1/errs, figure(end(colluding, nil)), t)
}
