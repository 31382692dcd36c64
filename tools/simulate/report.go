package main

import (
	"fmt"
	"strings"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/rating"
	"github.com/actionproof/mediator/tools/page"
)

// tables is the place of what this command writes in docs/reputation.md.
var tables = page.PlaceOf("simulate")

// result is an agent at the end of the month.
type result struct {
	*agent
	rating.Rating
	accrual.Reputation
}

// results returns those of the agents of a kind.
func (w *world) results(k *kind) (all []result) {
	for _, a := range w.agents {
		if a.kind == k {
			all = append(all, result{a, a.rated(days), a.log.Reputation(scoring)})
		}
	}
	return all
}

// groups returns a row for each kind of agents.
func (w *world) groups() string {
	t := page.NewTable("agents", "names", "owners", "rated", "R: median", "quartiles", "highest", "tiers",
		"lost a dispute", "autonomy score: median")
	for _, k := range groups {
		owners, of, scores, inTier, lost := make(map[string]bool), []float64(nil), []float64(nil), make(map[string]int), 0
		all := w.results(k)
		for _, r := range all {
			owners[r.agent.Owner] = true
			scores = append(scores, r.CurrentScore)
			if r.ChallengesLost > 0 {
				lost++
			}
			if r.Measured {
				of = append(of, r.R)
				inTier[r.Rating.Tier]++
			}
		}
		var tiers []string
		for _, name := range []string{"S", "A", "B", "C", "D"} {
			if n := inTier[name]; n > 0 {
				tiers = append(tiers, fmt.Sprint(n, " ", name))
			}
		}
		t.Row(k.name, fmt.Sprint(len(all)), fmt.Sprint(len(owners)), fmt.Sprint(len(of)), figure(page.Quantile(of, 0.5)),
			figure(page.Quantile(of, 0.25))+"–"+figure(page.Quantile(of, 0.75)), figure(page.Quantile(of, 1)),
			strings.Join(tiers, ", "), fmt.Sprint(lost), figure(page.Quantile(scores, 0.5)))
	}
	return t.String()
}

func figure(v float64) string { return fmt.Sprintf("%.1f", v) }

// ofAttacks returns a row for each attack with how many names and owners it costs.
func ofAttacks(all []attack) string {
	t := page.NewTable("what the agent does", "names it needs", "owners it needs", "R")
	for _, a := range all {
		t.Row(a.name, fmt.Sprint(a.identities), fmt.Sprint(a.owners), figure(a.r))
	}
	return t.String()
}

// ofCollusions returns a row for each way to collude, by how many other owners it costs.
func ofCollusions(all []collusion) string {
	columns := []string{"R if so many other owners help", "names for each"}
	for _, n := range colluders {
		columns = append(columns, fmt.Sprint(n))
	}
	t := page.NewTable(columns...)
	for _, c := range all {
		row := []string{c.name, fmt.Sprint(c.identities)}
		for _, r := range c.r {
			row = append(row, figure(r))
		}
		t.Row(row...)
	}
	return t.String()
}

// text returns what stands in the page.
func (s study) text() string {
	return fmt.Sprintf("%d agents over %d days, from the seed %d. The log of disputes has %d entries at the end.\n\n%s\n"+
		"One agent with regular sessions, of which nobody takes notice, has R = %s. Means over %d worlds:\n\n%s\n%s\n"+
		"An honest agent that has lost a dispute has less than one that takes another name from %d days later on.\n\n",
		len(people(s.seed).agents), days, s.seed, s.world.book.Log().Entries, s.world.groups(), figure(s.collusions[0].r[0]),
		tries, ofCollusions(s.collusions), ofAttacks(s.attacks), pays(s.courses))
}
