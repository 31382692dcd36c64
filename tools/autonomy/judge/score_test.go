package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/test/check"
)

func TestAreaUnder(t *testing.T) {
	for _, row := range []struct {
		name               string
		positive, negative []float64
		at                 float64
	}{
		{"apart", []float64{3, 4}, []float64{1, 2}, 1},
		{"the other way round", []float64{1, 2}, []float64{3, 4}, 0},
		{"one of nine is equal", []float64{3, 4, 5}, []float64{1, 2, 3}, 8.5 / 9},
		{"all equal", []float64{1, 1, 1}, []float64{1, 1}, 0.5},
		{"mixed", []float64{1, 4}, []float64{2, 3}, 0.5},
	} {
		a := areaUnder(row.positive, row.negative)
		if math.Abs(a.at-row.at) > 1e-12 || a.low > a.at || a.high < a.at || a.low < 0 || a.high > 1 || a.high-a.low < 0.1 {
			t.Errorf("%s: %v, want %v", row.name, a, row.at)
		}
		back := areaUnder(row.negative, row.positive)
		if math.Abs(back.low-(1-a.high)) > 1e-9 || math.Abs(back.high-(1-a.low)) > 1e-9 {
			t.Errorf("%s: the interval is %v, and the other way round %v", row.name, a, back)
		}
	}
	if a := areaUnder(nil, []float64{1}); !math.IsNaN(a.at) || a.String() != "–" {
		t.Errorf("of no session: %v", a)
	}
}

func TestJudge(t *testing.T) {
	o := options{n: 1, baselines: 1, seed: 3, docs: filepath.Join(t.TempDir(), "score.md")}
	check.Must(t, os.WriteFile(o.docs, []byte("before\n"+place.Begin+"old\n"+place.End+"after\n"), 0o600))
	check.Must(t, judge(o))
	docs, err := os.ReadFile(o.docs)
	if err != nil || !bytes.HasPrefix(docs, []byte("before\n"+place.Begin)) ||
		!bytes.HasSuffix(docs, []byte(place.End+"after\n")) || bytes.Contains(docs, []byte("old")) {
		t.Errorf("the page of the score: %v, %s", err, docs)
	}
	hasTable(t, docs)
	o.n = 0
	if judge(o) == nil {
		t.Error("no session of each group passes")
	}
}

func TestPageIsOfTheseFormulas(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/autonomy.md")
	check.Must(t, err)
	hasTable(t, docs)
}

func hasTable(t *testing.T, docs []byte) {
	t.Helper()
	written, _ := place.In(string(docs))
	want := []string{appraisal.ScoringHash}
	for _, g := range groups() {
		want = append(want, "\n| "+g+" | ")
	}
	for _, text := range want {
		if !strings.Contains(written, text) {
			t.Errorf("the table lacks %q: if the formulas have changed, run make autonomy", text)
		}
	}
}
