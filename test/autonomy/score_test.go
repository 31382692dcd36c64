package autonomy

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
)

// perfect scores agents with 90 and all others with 10, as it is told of each session.
func perfect(all []Session) Scorer {
	groups := make(map[string]string)
	for _, s := range all {
		groups[s.ID] = s.Group
	}
	return func(receipts []interaction.Receipt, _ []Challenge, _ []string) (score, lower float64, parts map[string]float64) {
		switch groups[receipts[0].Chain.SessionID] {
		case Steady, Bursts, Odd:
			return 90, 80, map[string]float64{"known": 1, "constant": 3}
		}
		return 10, 0, map[string]float64{"known": 0, "constant": 3}
	}
}

func constant([]interaction.Receipt, []Challenge, []string) (score, lower float64, parts map[string]float64) {
	return 50, 40, nil
}

func report(t *testing.T, by Scorer) (page, plot string, scored []Scored) {
	t.Helper()
	scored, err := Score(sessions(t), by)
	if err != nil {
		t.Fatal(err)
	}
	var p, s strings.Builder
	if err := errors.Join(Report(&p, scored, "A test.", "scores.svg"), Plot(&s, scored)); err != nil {
		t.Fatal(err)
	}
	return p.String(), s.String(), scored
}

// TestStubs: a score that knows every group has the area 1 against those that are no agents, and a constant has 0.5 against all.
func TestStubs(t *testing.T) {
	_, _, known := report(t, perfect(sessions(t)))
	_, _, same := report(t, constant)
	for _, g := range groupsOf()[1:] {
		want := 1.0
		if g == Bursts || g == Odd {
			want = 0.5
		}
		if a := areaUnder(values(known, Steady, "", scoreOf), values(known, g, "", scoreOf)); a.at != want {
			t.Errorf("a score that knows has the area %v against %s, want %v", a, g, want)
		}
		if a := areaUnder(values(same, Steady, "", scoreOf), values(same, g, "", scoreOf)); a.at != 0.5 || a.low >= 0.5 || a.high <= 0.5 {
			t.Errorf("a constant has the area %v against %s", a, g)
		}
	}
}

// TestReport: the page has a row for each group and part, and the plot is SVG with each group's name.
func TestReport(t *testing.T) {
	page, plot, _ := report(t, perfect(sessions(t)))
	for _, want := range []string{
		"| steady agents | 6 | 90.0 | 90.0–90.0 | 80.0 | 0 % | 0 % | 0 % | 100 % |", "| people | 6 | 10.0 | 10.0–10.0 | 0.0 | 100 % | 0 % | 0 % | 0 % |",
		"| people | 1.00 (", "| AUC | constant | known |", "| paced fakes | 0.50 (", "| people | 3 | 0 |", "](scores.svg)", "| fake model endpoints, believed |", "turnaround",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, k := range kinds {
		if !strings.Contains(page, "| "+k.group+" | "+k.name+" |") {
			t.Errorf("the page lacks the kind %s", k.name)
		}
	}
	texts := make(map[string]bool)
	for d := xml.NewDecoder(strings.NewReader(plot)); ; {
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
	for _, g := range groupsOf() {
		if !texts[g] {
			t.Errorf("the plot does not name the group %s", g)
		}
	}
}

// TestScoreRefuses: a score has to be from 0 to 100.
func TestScoreRefuses(t *testing.T) {
	for _, bad := range []float64{math.NaN(), -1, 100.5, math.Inf(1)} {
		for _, by := range []Scorer{
			func([]interaction.Receipt, []Challenge, []string) (float64, float64, map[string]float64) {
				return bad, 0, nil
			},
			func([]interaction.Receipt, []Challenge, []string) (float64, float64, map[string]float64) {
				return 0, bad, nil
			},
		} {
			if _, err := Score(sessions(t)[:1], by); err == nil {
				t.Errorf("%v passes", bad)
			}
		}
	}
}

// TestBelieved: the fakes are scored once with the hosts that a verifier believes, and once with theirs besides.
func TestBelieved(t *testing.T) {
	seen := make(map[string][]int)
	_, err := Score(sessions(t), func(receipts []interaction.Receipt, _ []Challenge, believed []string) (float64, float64, map[string]float64) {
		id := receipts[0].Chain.SessionID
		seen[id] = append(seen[id], len(believed))
		return 0, 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions(t) {
		want := 1 + one(s.Group == Fake)
		if got := seen[s.ID]; len(got) != want || got[0] != len(BelievedHosts) || want == 2 && got[1] != len(BelievedHosts)+len(FakeHosts) {
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

func TestQuantile(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.75: 4, 1: 5, 0.125: 1.5} {
		if got := quantile([]float64{5, 3, 1, 4, 2}, q); got != want {
			t.Errorf("the quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("no numbers have a median")
	}
}
