package main

import (
	"fmt"
	"io"
	"math"

	"github.com/actionproof/mediator/test/autonomy"
	"github.com/actionproof/mediator/test/page"
)

// bands are where the bands of a score begin: the seed's.
var bands = []float64{0, 30, 60, 80}

// report writes how scores are spread over the groups, and how well they tell agents from the others, as Markdown. about says what was scored,
// and picture is the name of the file with the plot.
func report(w io.Writer, all []scored, about, picture string) error {
	_, err := fmt.Fprintf(w, `# Does the score tell agents from others?

Written by %s. All sessions are synthetic: [README.md](README.md) says what each group is, and what is assumed.
%s

![scores of each group, and the area under the curve](%s)

## Scores

Quartiles are the first and the third. Shares are of the bands of the score.

%s
## Agents against each group

The area under the ROC curve (AUC) is how likely a session of steady agents has more than one of the group; 0.5 tells nothing, 1 everything. In brackets
is its 95 %% interval. Against the groups "agents that work in bursts" and "agents that look like people" the best is 0.5: they are agents.

%s
## Parts

The same of each part by itself, and its median. A part that is missing in a session is left out.

%s
%s
## Kinds

%s
## Challenges

%s
## What the sessions look like

Of each figure the median over the sessions of a kind of the median of a session; in brackets the ratio of its quartiles, as far as it changes from call to call.

%s`, "`make autonomy`", about, picture, scores(all), areas(all), partAreas(all), partMedians(all), byKind(all), challengeTable(all), figureTable(all))
	return err
}

// spreadOf writes how many numbers there are, and their median and quartiles.
func spreadOf(of []float64) []string {
	if len(of) == 0 {
		return []string{"0", "–", "–"}
	}
	return []string{fmt.Sprint(len(of)), fmt.Sprintf("%.1f", page.Quantile(of, 0.5)), fmt.Sprintf("%.1f–%.1f", page.Quantile(of, 0.25), page.Quantile(of, 0.75))}
}

// bandsOf writes the share of each band.
func bandsOf(of []float64) (out []string) {
	for i, from := range bands {
		n := 0
		for _, v := range of {
			if v >= from && (i == len(bands)-1 || v < bands[i+1]) {
				n++
			}
		}
		out = append(out, fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, len(of)))))
	}
	return out
}

func (a area) String() string {
	if math.IsNaN(a.at) {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", a.at, a.low, a.high)
}

func scores(all []scored) string {
	t := page.NewTable("group", "sessions", "median", "quartiles", "median of the lower bound", "below 30", "30 to 60", "60 to 80", "80 and more")
	for _, g := range groups() {
		of := values(all, g, "", scoreOf)
		lower := spreadOf(values(all, g, "", lowerOf))[1]
		t.Row(append(append(append([]string{g}, spreadOf(of)...), lower), bandsOf(of)...)...)
	}
	return t.String()
}

func areas(all []scored) string {
	t := page.NewTable("group", "score", "lower bound")
	for _, g := range groups()[1:] {
		t.Row(g, against(all, g, scoreOf), against(all, g, lowerOf))
	}
	return t.String()
}

func partAreas(all []scored) string {
	names := partsOf(all)
	t := page.NewTable(append([]string{"AUC"}, names...)...)
	for _, g := range groups()[1:] {
		row := []string{g}
		for _, name := range names {
			row = append(row, against(all, g, pointsOf(name)))
		}
		t.Row(row...)
	}
	return t.String()
}

func partMedians(all []scored) string {
	names := partsOf(all)
	t := page.NewTable(append([]string{"median"}, names...)...)
	for _, g := range groups() {
		row := []string{g}
		for _, name := range names {
			row = append(row, short(some(values(all, g, "", pointsOf(name)), 0.5)))
		}
		t.Row(row...)
	}
	return t.String()
}

func byKind(all []scored) string {
	t := page.NewTable("group", "kind", "sessions", "median", "quartiles", "below 30", "30 to 60", "60 to 80", "80 and more", "AUC of steady agents against it")
	for _, g := range groups() {
		for _, k := range kinds() {
			if k.group != g && (g != believed || k.group != autonomy.Fake) {
				continue
			}
			of, auc := values(all, g, k.name, scoreOf), "–"
			if g != autonomy.Steady {
				auc = areaUnder(values(all, autonomy.Steady, "", scoreOf), of).String()
			}
			t.Row(append(append(append([]string{g, k.name}, spreadOf(of)...), bandsOf(of)...), auc)...)
		}
	}
	return t.String()
}

func challengeTable(all []scored) string {
	t := page.NewTable("kind", "issued", "committed", "revealed", "kept")
	for _, k := range kinds() {
		var issued, committed, revealed, kept int
		for _, s := range all {
			if s.Group != k.group || s.Kind != k.name {
				continue
			}
			for _, c := range s.Challenges {
				issued++
				committed += one(c.Committed != 0)
				revealed += one(c.Revealed != 0)
				kept += one(c.Kept)
			}
		}
		t.Row(k.name, fmt.Sprint(issued), fmt.Sprint(committed), fmt.Sprint(revealed), fmt.Sprint(kept))
	}
	return t.String()
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
