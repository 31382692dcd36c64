package main

import (
	"fmt"
	"math"

	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/tools/autonomy"
	"github.com/actionproof/mediator/tools/page"
)

// tables is the place of the tables in docs/autonomy.md.
var tables = page.PlaceOf("autonomy")

// result are the scores of one variant.
type result struct {
	name string
	all  []scored
}

// worth returns the tables of the page of the score. The first result is shown in full, of the others how well they
// tell agents.
func worth(results []result, about string) string {
	all := results[0].all
	first := page.NewTable("group", "n", "median", "quartiles", "low", "medium", "high", "very high", "AUC")
	for _, g := range groups() {
		of := values(all, g, scoreOf)
		first.Row(append(append(append([]string{g}, spreadOf(of)...), bandsOf(of)...), against(all, g, scoreOf))...)
	}
	second := page.NewTable(append([]string{"AUC against"}, namesOf(results)...)...)
	for _, g := range groups()[1:] {
		row := []string{g}
		for _, r := range results {
			row = append(row, against(r.all, g, scoreOf))
		}
		second.Row(row...)
	}
	shown := []string{autonomy.People, autonomy.Replay, autonomy.Paced, believed, autonomy.Hidden}
	third := page.NewTable(append([]string{"part", "measured", "median"}, shown...)...)
	for _, p := range partsOfScore(appraisal.Appraise(appraisal.NewSession(nil), nil, nil)) {
		points := pointsOf(p.Name)
		measured, median := mean(values(all, autonomy.Steady, measuredOf(p.Name))),
			page.Quantile(values(all, autonomy.Steady, points), 0.5)
		row := []string{"`" + p.Name + "`", fmt.Sprintf("%.0f %%", 100*measured), fmt.Sprintf("%.1f of %.0f", median, p.Of)}
		for _, g := range shown {
			row = append(row, againstShort(all, g, points))
		}
		third.Row(row...)
	}
	return fmt.Sprintf("%s By formulas with the `scoringHash` %s.\n\n%s\n%s\n%s\n", about, appraisal.ScoringHash,
		first.String(), second.String(), third.String())
}

func namesOf(results []result) (names []string) {
	for _, r := range results {
		names = append(names, r.name)
	}
	return names
}

// against writes the area of steady agents against a group.
func against(all []scored, group string, of func(scored) (float64, bool)) string {
	if group == autonomy.Steady {
		return "–"
	}
	return areaUnder(values(all, autonomy.Steady, of), values(all, group, of)).String()
}

// againstShort writes the area alone, and in brackets if its interval has 0.5 in it.
func againstShort(all []scored, group string, of func(scored) (float64, bool)) string {
	a := areaUnder(values(all, autonomy.Steady, of), values(all, group, of))
	switch {
	case math.IsNaN(a.at):
		return "–"
	case a.low <= 0.5 && a.high >= 0.5:
		return fmt.Sprintf("(%.2f)", a.at)
	}
	return fmt.Sprintf("%.2f", a.at)
}
