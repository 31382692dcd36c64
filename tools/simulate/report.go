package main

import (
	"fmt"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/tools/page"
)

// tables is the place of what this command writes in docs/reputation.md.
var tables = page.PlaceOf("simulate")

// result is an agent at the end of the month.
type result struct {
	*agent
	accrual.Rating
	accrual.Reputation
}

// results returns those of the agents of a kind.
func (w *world) results(k *kind) (all []result) {
	for _, a := range w.agents {
		if a.kind == k {
			all = append(all, result{a, a.rated(days), a.log.Reputation()})
		}
	}
	return all
}

// groups returns a row for each kind of agents.
func (w *world) groups() string {
	t := page.NewTable("agents", "names", "owners", "R: median", "highest", "lost a dispute", "score: median")
	for _, k := range groups {
		owners, of, scores, lost := make(map[string]bool), []float64(nil), []float64(nil), 0
		all := w.results(k)
		for _, r := range all {
			owners[r.agent.Owner] = true
			scores = append(scores, r.CurrentScore)
			if r.ChallengesLost > 0 {
				lost++
			}
			if r.Measured {
				of = append(of, r.R)
			}
		}
		t.Row(k.name, fmt.Sprint(len(all)), fmt.Sprint(len(owners)), figure(page.Quantile(of, 0.5)),
			figure(page.Quantile(of, 1)), fmt.Sprint(lost), figure(page.Quantile(scores, 0.5)))
	}
	return t.String()
}

func figure(v float64) string { return fmt.Sprintf("%.1f", v) }

func ofAttacks(all []attack) string {
	t := page.NewTable("the agent", "R")
	for _, a := range all {
		t.Row(a.name, figure(a.r))
	}
	return t.String()
}

func ofCollusions(all []collusion) string {
	columns := []string{"agents of so many other owners"}
	for _, n := range colluders {
		columns = append(columns, fmt.Sprint(n))
	}
	t := page.NewTable(columns...)
	for _, c := range all {
		row := []string{c.name}
		for _, r := range c.r {
			row = append(row, figure(r))
		}
		t.Row(row...)
	}
	return t.String()
}

// text returns the tables of the page.
func (s study) text() string {
	return fmt.Sprintf("Seed %d, %d days; %d entries in the log of disputes.\n\n%s\n"+
		"R of one agent, as the mean of %d worlds, with attacks on day %d:\n\n%s\n%s\n"+
		"After a lost dispute, a new name overtakes the old one in %d days.\n\n",
		s.seed, days, s.world.book.Log().Entries, s.world.groups(), tries, middle,
		ofCollusions(s.collusions), ofAttacks(s.attacks), s.pays)
}
