package main

import (
	"fmt"
	"math"
	"strings"

	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/test/autonomy"
)

// What stands around the tables in docs/autonomy.md that this command writes.
const (
	tablesBegin = "<!-- The tables up to the next comment are written by `make autonomy`. -->\n"
	tablesEnd   = "<!-- End of the tables. -->\n"
)

// result are the scores of one variant.
type result struct {
	name string
	all  []scored
}

// worth returns the tables of the page of the score. The first result is shown in full, of the others how well they tell agents.
func worth(results []result, about string) string {
	all := results[0].all
	first := newTable("group", "n", "median", "quartiles", "low", "medium", "high", "very high", "AUC")
	for _, g := range groups() {
		of := values(all, g, "", scoreOf)
		first.row(append(append(append([]string{g}, spreadOf(of)...), bandsOf(of)...), against(all, g, scoreOf))...)
	}
	second := newTable(append([]string{"AUC against"}, namesOf(results)...)...)
	for _, g := range groups()[1:] {
		row := []string{g}
		for _, r := range results {
			row = append(row, against(r.all, g, scoreOf))
		}
		second.row(row...)
	}
	shown := []string{autonomy.People, autonomy.Replay, autonomy.Paced, believed, autonomy.Hidden}
	third := newTable(append([]string{"part", "measured", "median"}, shown...)...)
	for _, p := range partsOfScore(appraisal.Appraise(appraisal.NewSession(nil), nil, nil)) {
		points := pointsOf(p.Name)
		measured, median := mean(values(all, autonomy.Steady, "", measuredOf(p.Name))), quantile(values(all, autonomy.Steady, "", points), 0.5)
		row := []string{"`" + p.Name + "`", fmt.Sprintf("%.0f %%", 100*measured), fmt.Sprintf("%.1f of %.0f", median, p.Of)}
		for _, g := range shown {
			row = append(row, againstShort(all, g, points))
		}
		third.row(row...)
	}
	return fmt.Sprintf("%s By formulas with the `scoringHash` %s.\n\n%s\n%s\n%s\n", about, appraisal.ScoringHash, first.text.String(), second.text.String(), third.text.String())
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
	return areaUnder(values(all, autonomy.Steady, "", of), values(all, group, "", of)).String()
}

// againstShort writes the area alone, and in brackets if its interval has 0.5 in it.
func againstShort(all []scored, group string, of func(scored) (float64, bool)) string {
	a := areaUnder(values(all, autonomy.Steady, "", of), values(all, group, "", of))
	switch {
	case math.IsNaN(a.at):
		return "–"
	case a.low <= 0.5 && a.high >= 0.5:
		return fmt.Sprintf("(%.2f)", a.at)
	}
	return fmt.Sprintf("%.2f", a.at)
}

// withTables returns a page with these tables in place of those that it has.
func withTables(page []byte, tables string) ([]byte, error) {
	before, rest, ok := strings.Cut(string(page), tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !ok || !ends {
		return nil, fmt.Errorf("judge: the page of the score has no place for tables: a line %q, and a later one %q", strings.TrimSpace(tablesBegin), strings.TrimSpace(tablesEnd))
	}
	return []byte(before + tablesBegin + "\n" + tables + tablesEnd + after), nil
}
