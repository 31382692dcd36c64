package main

import (
	"fmt"
	"math"

	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/tools/autonomy"
	"github.com/actionproof/mediator/tools/page"
)

// place is the place of the table in docs/autonomy.md.
var place = page.PlaceOf("autonomy")

// tableOf returns a row for each group: the spread of its scores, the shares of the seed's bands, and the area of
// steady agents against it.
func tableOf(scores map[string][]float64, about string) string {
	t := page.NewTable("group", "median", "quartiles", "low", "medium", "high", "AUC")
	for _, g := range groups() {
		of := scores[g]
		row := []string{g, fmt.Sprintf("%.1f", page.Quantile(of, 0.5)),
			fmt.Sprintf("%.1f–%.1f", page.Quantile(of, 0.25), page.Quantile(of, 0.75))}
		for _, band := range [][2]float64{{0, 30}, {30, 60}, {60, 101}} {
			n := 0
			for _, v := range of {
				if band[0] <= v && v < band[1] {
					n++
				}
			}
			row = append(row, fmt.Sprintf("%.0f %%", 100*float64(n)/float64(len(of))))
		}
		against := "–"
		if g != autonomy.Steady {
			against = areaUnder(scores[autonomy.Steady], of).String()
		}
		t.Row(append(row, against)...)
	}
	return fmt.Sprintf("%s `scoringHash`:\n%s.\n\n%s\n", about, appraisal.ScoringHash, t.String())
}

// area is an area under the ROC curve with its 95 % interval.
type area struct{ at, low, high float64 }

// areaUnder returns the probability that a value of positive exceeds one of negative, where a tie counts half: the area
// under the ROC curve (Hanley and McNeil 1982). The interval is Newcombe's method 5 (Statistics in Medicine 25, 2006,
// page 559), which has a width even if the groups do not overlap.
func areaUnder(positive, negative []float64) area {
	m, n := float64(len(positive)), float64(len(negative))
	if m == 0 || n == 0 {
		return area{math.NaN(), math.NaN(), math.NaN()}
	}
	above := 0.0
	for _, p := range positive {
		for _, q := range negative {
			switch {
			case p > q:
				above++
			case p == q:
				above += 0.5
			}
		}
	}
	at := above / (m * n)
	const z = 1.959964
	more := (m+n)/2 - 1
	within := func(t float64) bool {
		variance := t * (1 - t) * (1 + more*((1-t)/(2-t)+t/(1+t))) / (m * n)
		return (t-at)*(t-at) <= z*z*variance
	}
	bound := func(out float64) float64 {
		in := at
		for range 50 {
			if middle := (in + out) / 2; within(middle) {
				in = middle
			} else {
				out = middle
			}
		}
		return in
	}
	return area{at, bound(0), bound(1)}
}

func (a area) String() string {
	if math.IsNaN(a.at) {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", a.at, a.low, a.high)
}
