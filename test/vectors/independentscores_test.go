package vectors_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/reputation/autonomy"
	synthetic "github.com/actionproof/mediator/test/autonomy"
)

// independently computes the scores of a file by the program in js, which has been written from docs/autonomy.md and formulas.json alone. It
// returns one JSON value a strategy, baseline and session, after one that says by which formulas.
func independently(t *testing.T, file string) []json.RawMessage {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: run make setup")
	}
	if err := filepath.WalkDir("js", func(path string, _ fs.DirEntry, err error) error { // so that go test does not keep a result when they change
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "js/scores.mjs", "../../reputation/autonomy/formulas.json", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var lines []json.RawMessage
	for line := range strings.Lines(string(out)) {
		lines = append(lines, json.RawMessage(line))
	}
	return lines
}

// TestIndependentScores has the program in js compute everything in scores.json again, to 1e-9. It does not read the results there.
func TestIndependentScores(t *testing.T) {
	f := read[scoresFile](t, "scores.json")
	names, want := []string{"formulas"}, []any{map[string]any{"scoringVersion": f.Version, "scoringHash": f.ScoringHash}}
	for _, s := range f.Strategies {
		result := map[string]any{"verdict": s.Verdict}
		if s.Commitment != "" {
			result["commitment"] = s.Commitment
		}
		names, want = append(names, "strategy: "+s.Name), append(want, result)
	}
	for _, b := range f.Baselines {
		names, want = append(names, "baseline: "+b.Name), append(want, map[string]any{"baseline": b.Baseline, "baselineHash": b.Hash})
	}
	for _, v := range f.Vectors {
		names, want = append(names, v.Name), append(want, map[string]any{"score": v.Score, "sample": v.Sample})
	}
	got := independently(t, "scores.json")
	if len(got) != len(want) {
		t.Fatalf("it computes %d results of %d", len(got), len(want))
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) { like(t, "js", got[i], want[i]) })
	}
}

// TestIndependentScoresOfSessions compares both implementations on whole sessions, which have what no vector was written for. A baseline is made
// of the sessions themselves, ten times over, so that it counts.
func TestIndependentScoresOfSessions(t *testing.T) {
	sessions, err := synthetic.Make(1, 18)
	if err != nil {
		t.Fatal(err)
	}
	hosts := append(append([]string{}, synthetic.BelievedHosts...), synthetic.FakeHosts...)
	f := scoresFile{Strategies: []strategyVector{}}
	var samples []autonomy.Sample
	for _, s := range sessions {
		v := scoreVector{Name: s.Kind, ModelHosts: hosts}
		for i := range s.Receipts {
			v.Receipts = append(v.Receipts, bare(&s.Receipts[i]))
		}
		v.measure()
		for range 10 {
			samples = append(samples, v.session.Sample())
		}
		f.Vectors = append(f.Vectors, v)
	}
	baseline := autonomy.NewBaseline("owner", samples)
	f.Baselines = []baselineVector{{Name: "of all", Samples: samples, Baseline: baseline}}
	for i := range f.Vectors {
		f.Vectors[i].Baseline = &baseline
	}
	file := filepath.Join(t.TempDir(), "sessions.json")
	if err := os.WriteFile(file, f.marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	got := independently(t, file)
	if len(got) != len(sessions)+2 {
		t.Fatalf("it computes %d results for %d sessions", len(got), len(sessions))
	}
	like(t, "baseline", field(got[1], "baseline"), baseline)
	for i, v := range f.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			like(t, "score", field(got[i+2], "score"), autonomy.Appraise(v.session, v.Challenges, v.Baseline))
			like(t, "sample", field(got[i+2], "sample"), v.session.Sample())
		})
	}
}

func field(object json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	mustDo(json.Unmarshal(object, &members))
	return members[name]
}
