package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/tools/autonomy"
)

func sessions() (all []autonomy.Session) {
	for _, g := range autonomy.Groups {
		names := autonomy.KindsOf(g)
		for i := range 6 {
			s := autonomy.Session{Group: g, Kind: names[i%len(names)], ID: fmt.Sprint(g, i)}
			c := interaction.Receipt{Chain: interaction.ChainLink{SessionID: s.ID, SequenceNumber: 1},
				Model: &interaction.ModelCall{}}
			c.Model.Figures.Turnaround, c.Model.Figures.FirstDelta = interaction.Observed(2500), interaction.NotMeasured
			s.Receipts = []interaction.Receipt{c}
			s.Challenges = []autonomy.Challenge{{Nonce: "n", Issued: 1, Committed: 2}}
			all = append(all, s)
		}
	}
	return all
}

func perfect(s autonomy.Session, _ []string) (score, lower float64, parts map[string]part) {
	for _, agents := range []string{autonomy.Steady, autonomy.Bursts, autonomy.Odd} {
		if s.Group == agents {
			return 90, 80, map[string]part{"known": {points: 1, measured: true}, "constant": {points: 3}}
		}
	}
	return 10, 0, map[string]part{"known": {}, "constant": {points: 3}}
}

func constant(autonomy.Session, []string) (score, lower float64, parts map[string]part) {
	return 50, 40, nil
}

func scoredBy(t *testing.T, by Scorer) []scored {
	t.Helper()
	all, err := score(sessions(), by)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestStubs(t *testing.T) {
	known, same := scoredBy(t, perfect), scoredBy(t, constant)
	for _, g := range groups()[1:] {
		want := 1.0
		if g == autonomy.Bursts || g == autonomy.Odd {
			want = 0.5
		}
		if a := areaUnder(values(known, autonomy.Steady, scoreOf), values(known, g, scoreOf)); a.at != want {
			t.Errorf("a score that knows has the area %v against %s, want %v", a, g, want)
		}
		if a := areaUnder(values(same, autonomy.Steady, scoreOf), values(same, g, scoreOf)); a.at != 0.5 || a.low >= 0.5 ||
			a.high <= 0.5 {
			t.Errorf("a constant has the area %v against %s", a, g)
		}
	}
}

func TestPlot(t *testing.T) {
	var picture strings.Builder
	if err := plot(&picture, scoredBy(t, perfect)); err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]bool)
	for d := xml.NewDecoder(strings.NewReader(picture.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts[string(text)] = true
		}
	}
	for _, g := range groups() {
		if !texts[g] {
			t.Errorf("the plot does not name the group %s", g)
		}
	}
}

func TestJudge(t *testing.T) {
	dir := t.TempDir()
	o := options{n: 1, baselines: 1, seed: 3, docs: filepath.Join(dir, "score.md"),
		picture: filepath.Join(dir, "scores.svg")}
	if err := os.WriteFile(o.docs, []byte("before\n"+tables.Begin+"old\n"+tables.End+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := judge(o); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(o.docs)
	if err != nil || !bytes.HasPrefix(docs, []byte("before\n"+tables.Begin)) ||
		!bytes.HasSuffix(docs, []byte(tables.End+"after\n")) || bytes.Contains(docs, []byte("old")) {
		t.Errorf("the page of the score: %v, %s", err, docs)
	}
	hasTables(t, docs)
	if drawn, err := os.ReadFile(o.picture); err != nil || !strings.HasPrefix(string(drawn), "<svg ") {
		t.Errorf("the plot: %v, %.100s", err, drawn)
	}
	o.n = 0
	if judge(o) == nil {
		t.Error("no session of each group passes")
	}
	if _, err := tables.Put("no place", ""); err == nil {
		t.Error("a page without a place for tables passes")
	}
}

func TestPageIsOfTheseFormulas(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/autonomy.md")
	if err != nil {
		t.Fatal(err)
	}
	hasTables(t, docs)
}

func hasTables(t *testing.T, docs []byte) {
	t.Helper()
	written, _ := tables.In(string(docs))
	want := []string{"`scoringHash` " + appraisal.ScoringHash}
	for _, g := range groups() {
		want = append(want, "\n| "+g+" | ")
	}
	for _, p := range partsOfScore(appraisal.Appraise(appraisal.NewSession(nil), nil, nil)) {
		want = append(want, "\n| `"+p.Name+"` | ")
	}
	for _, text := range want {
		if !strings.Contains(written, text) {
			t.Errorf("the tables lack %q: if the formulas are others now, run make autonomy", text)
		}
	}
}

func TestStrategies(t *testing.T) {
	for _, row := range []struct {
		name           string
		kept, revealed bool
		waits          bool
		passed         int64
		accuracy       float64
	}{
		{"kept, and it waited", true, true, true, 1, 1},
		{"kept, and a call came between", true, true, false, 0, 1},
		{"not kept", false, true, true, 0, 0.75},
		{"not revealed", true, false, true, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := autonomy.Challenge{Nonce: "n", Issued: 1000, Committed: 2000, Commitment: strings.Repeat("0", 64),
				Kept: row.kept}
			if row.revealed {
				c.Revealed = 3000
			}
			s := autonomy.Session{Challenges: []autonomy.Challenge{c}}
			for i, at := range []int64{1500, 2500, 3500} {
				call := &interaction.ModelCall{Host: "m:443", Model: "m"}
				call.Figures.ToolCallsMade = interaction.Observed(0)
				r := interaction.Receipt{Model: call, Outcome: interaction.OutcomeCompleted,
					Timing: interaction.Timing{RequestReceived: at}, Challenge: &interaction.ChallengeRef{ChallengeNonce: "n"}}
				if i > 0 {
					r.Challenge.CommitmentHash, r.Challenge.CommitmentRevealed = c.Commitment, row.revealed && i == 2
				}
				s.Receipts = append(s.Receipts, r)
			}
			receipts, challenges := committed(s, row.waits)
			measured := appraisal.NewSession([]string{"m:443"})
			for i := range receipts {
				measured.Add("", &receipts[i])
			}
			got := appraisal.Appraise(measured, challenges, nil).Signals.Challenge
			if got.Issued != 1 || got.Passed != row.passed || got.Accuracy != row.accuracy {
				t.Errorf("%+v, want %d passed with an accuracy of %v", got, row.passed, row.accuracy)
			}
			if s.Receipts[0].Challenge == nil || s.Receipts[1].Challenge.CommitmentHash != c.Commitment {
				t.Error("the session itself was changed")
			}
		})
	}
}

func TestScoreRefuses(t *testing.T) {
	for _, bad := range []float64{math.NaN(), -1, 100.5, math.Inf(1)} {
		for _, by := range []Scorer{
			func(autonomy.Session, []string) (float64, float64, map[string]part) {
				return bad, 0, nil
			},
			func(autonomy.Session, []string) (float64, float64, map[string]part) {
				return 0, bad, nil
			},
		} {
			if _, err := score(sessions()[:1], by); err == nil {
				t.Errorf("%v passes", bad)
			}
		}
	}
}

func TestBelieved(t *testing.T) {
	seen := make(map[string][]int)
	_, err := score(sessions(), func(s autonomy.Session, believed []string) (float64, float64, map[string]part) {
		seen[s.ID] = append(seen[s.ID], len(believed))
		return 0, 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions() {
		want := 1 + one(s.Group == autonomy.Fake)
		if got := seen[s.ID]; len(got) != want || got[0] != len(autonomy.BelievedHosts) || want == 2 &&
			got[1] != len(autonomy.BelievedHosts)+len(autonomy.FakeHosts) {
			t.Errorf("%s (%s) was scored with %v hosts", s.ID, s.Group, got)
		}
	}
}

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
