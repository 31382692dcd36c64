package vectors_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
)

type scoreVector struct {
	Name       string               `json:"name"`
	ModelHosts []string             `json:"modelHosts"`
	Receipts   []json.RawMessage    `json:"receipts"`
	Challenges []autonomy.Challenge `json:"challenges,omitempty"`
	Baseline   *autonomy.Baseline   `json:"baseline,omitempty"`
	Score      *autonomy.Score      `json:"score,omitempty"`
	Sample     *autonomy.Sample     `json:"sample,omitempty"`
	session    *autonomy.Session
	expected   map[string]wantedPart // by hand
}

type wantedPart struct {
	n             int64
	value, points float64
	state         string
}

type baselineVector struct {
	Name     string            `json:"name"`
	Samples  []autonomy.Sample `json:"samples"`
	Baseline autonomy.Baseline `json:"baseline"`
	Hash     string            `json:"baselineHash"`
}

type strategyVector struct {
	Name       string `json:"name"`
	Nonce      string `json:"nonce"`
	Salt       string `json:"salt"`
	Strategy   string `json:"strategy"`
	Commitment string `json:"commitment,omitempty"`
	Verdict    string `json:"verdict"`
}

type scoresFile struct {
	About       string           `json:"about"`
	Version     string           `json:"scoringVersion"`
	ScoringHash string           `json:"scoringHash"`
	Strategies  []strategyVector `json:"strategies"`
	Baselines   []baselineVector `json:"baselines"`
	Vectors     []scoreVector    `json:"vectors,omitempty"`
}

func (v *scoreVector) measure() {
	v.session = autonomy.NewSession(v.ModelHosts)
	for i, raw := range v.Receipts {
		var r interaction.Receipt
		mustDo(json.Unmarshal(raw, &r))
		v.session.Add(evidence.HashBytes(fmt.Append(nil, i)), &r)
	}
}

func scoresVectors() scoresFile {
	f := scoresFile{
		About:   "Autonomy scores: see docs/autonomy.md, Formulas, and docs/vectors.md, Autonomy scores.",
		Version: autonomy.Version(), ScoringHash: autonomy.ScoringHash, Strategies: strategyVectors(),
		Baselines: baselineVectors(),
	}
	for _, v := range scoreCases() {
		v.measure()
		score, sample := autonomy.Appraise(v.session, v.Challenges, v.Baseline), v.session.Sample()
		v.Score, v.Sample = &score, &sample
		f.Vectors = append(f.Vectors, v)
	}
	return f
}

func TestScores(t *testing.T) {
	f := read[scoresFile]("scores.json")
	if f.ScoringHash != autonomy.ScoringHash || f.ScoringHash != evidence.HashBytes(autonomy.Formulas()) ||
		f.Version != autonomy.Version() {
		t.Errorf("the file is about the formulas %s %s", f.Version, f.ScoringHash)
	}
	seen := make(map[string]bool)
	for _, v := range f.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			if seen[v.Name] {
				t.Error("it stands there twice")
			}
			seen[v.Name] = true
			v.measure()
			like(t, "score", autonomy.Appraise(v.session, v.Challenges, v.Baseline), *v.Score)
			like(t, "sample", v.session.Sample(), *v.Sample)
		})
	}
	for _, b := range f.Baselines {
		t.Run(b.Name, func(t *testing.T) {
			got := autonomy.NewBaseline(b.Baseline.Owner, b.Samples)
			like(t, "baseline", got, b.Baseline)
			if hash, err := b.Baseline.Hash(); err != nil || hash != b.Hash {
				t.Errorf("%s, %v; want %s", hash, err, b.Hash)
			}
		})
	}
	for _, s := range f.Strategies {
		t.Run(s.Name, func(t *testing.T) {
			if commitment, verdict := s.judge(); commitment != s.Commitment || verdict != s.Verdict {
				t.Errorf("%s, %s; want %s, %s", commitment, verdict, s.Commitment, s.Verdict)
			}
		})
	}
}

func (s strategyVector) judge() (commitment, verdict string) {
	parsed, err := strategy.Parse([]byte(s.Strategy))
	if err == nil {
		commitment, err = strategy.Commitment(s.Nonce, s.Salt, parsed)
	}
	return commitment, codeOf(err)
}

// TestScoresByHand: parts worked out by hand from docs/autonomy.md.
func TestScoresByHand(t *testing.T) {
	for _, v := range scoreCases() {
		t.Run(v.Name, func(t *testing.T) {
			if len(v.expected) == 0 {
				t.Fatal("nothing is expected")
			}
			v.measure()
			got := make(map[string]autonomy.Part)
			score := autonomy.Appraise(v.session, v.Challenges, v.Baseline)
			for _, signal := range []autonomy.Signal{score.Signals.Timing.Signal, score.Signals.Recursion.Signal,
				score.Signals.Knowledge.Signal, score.Signals.Entropy.Signal, score.Signals.Challenge.Signal} {
				for _, p := range signal.Parts {
					got[p.Name] = p
				}
			}
			for name, want := range v.expected {
				p, ok := got[name]
				if name == "score" {
					p, ok = autonomy.Part{N: score.N, Value: score.Interval.Lower, Points: score.Composite, State: score.Band}, true
				}
				if !ok || p.N != want.n || math.Abs(p.Value-want.value) > 1e-9 || math.Abs(p.Points-want.points) > 1e-9 ||
					p.State != want.state {
					t.Errorf("%s is %+v, want %+v", name, p, want)
				}
			}
		})
	}
}

func like(t *testing.T, name string, got, want any) {
	t.Helper()
	var a, b any
	mustDo(json.Unmarshal(compact(got), &a))
	mustDo(json.Unmarshal(compact(want), &b))
	if at := differs(name, a, b); at != "" {
		t.Error(at)
	}
}

func differs(path string, a, b any) string {
	switch a := a.(type) {
	case float64:
		if b, ok := b.(float64); ok && math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) {
			return ""
		}
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return fmt.Sprintf("%s: %v, want %v", path, a, b)
		}
		for name, v := range a {
			if at := differs(path+"."+name, v, b[name]); at != "" {
				return at
			}
		}
		return ""
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return fmt.Sprintf("%s: %v, want %v", path, a, b)
		}
		for i, v := range a {
			if at := differs(fmt.Sprint(path, "[", i, "]"), v, b[i]); at != "" {
				return at
			}
		}
		return ""
	default:
		if reflect.DeepEqual(a, b) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v, want %v", path, a, b)
}

func bare(r *interaction.Receipt) json.RawMessage {
	var v any
	mustDo(json.Unmarshal(compact(r), &v))
	v, _ = pruned(v)
	return compact(v)
}

func pruned(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if state, ok := v["state"]; ok && (state == "" || state == interaction.StateNotMeasured) {
			return nil, false
		} else if ok {
			return v, true // a figure of 0 is one
		}
		for name, member := range v {
			if kept, ok := pruned(member); ok {
				v[name] = kept
			} else {
				delete(v, name)
			}
		}
		return v, len(v) > 0
	case []any:
		for i := range v {
			v[i], _ = pruned(v[i])
		}
		return v, len(v) > 0
	case string:
		return v, v != ""
	case float64:
		return int64(v), v != 0
	case bool:
		return v, v
	}
	return nil, false
}
