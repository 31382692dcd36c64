package autonomy_test

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
)

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../../test/vectors/scores.json")
	check.Must(t, err)
	var f struct {
		Baselines []struct {
			Name     string
			Samples  []autonomy.Sample
			Baseline autonomy.Baseline
		}
		Vectors []struct {
			Name       string
			ModelHosts []string
			Receipts   []*interaction.Receipt
			Challenges []autonomy.Challenge
			Baseline   *autonomy.Baseline
			Score      autonomy.Score
			Sample     autonomy.Sample
		}
	}
	check.Must(t, json.Unmarshal(raw, &f))
	if len(f.Vectors) < 150 || len(f.Baselines) < 6 {
		t.Errorf("%d vectors, %d baselines", len(f.Vectors), len(f.Baselines))
	}
	for _, v := range f.Vectors {
		s := autonomy.NewSession(v.ModelHosts)
		for _, r := range v.Receipts {
			s.Add("", r)
		}
		if got := autonomy.Appraise(s, v.Challenges, v.Baseline); !alike(got, v.Score) {
			t.Errorf("%s\n got %+v\nwant %+v", v.Name, got, v.Score)
		}
		if got := s.Sample(); !alike(got, v.Sample) {
			t.Errorf("%s\n got %+v\nwant %+v", v.Name, got, v.Sample)
		}
	}
	for _, b := range f.Baselines {
		if got := autonomy.NewBaseline(b.Baseline.Owner, b.Samples); !alike(got, b.Baseline) {
			t.Errorf("%s\n got %+v\nwant %+v", b.Name, got, b.Baseline)
		}
	}
}

func alike(a, b any) bool {
	var plain [2]any
	for i, v := range []any{a, b} {
		raw, err := json.Marshal(v)
		if err != nil || json.Unmarshal(raw, &plain[i]) != nil {
			return false
		}
	}
	return same(plain[0], plain[1])
}

func same(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && math.Abs(a-b) <= 1e-9*max(1, math.Abs(b))
	case []any:
		b, ok := b.([]any)
		for i := range a {
			if !ok || len(a) != len(b) || !same(a[i], b[i]) {
				return false
			}
		}
		return ok && len(a) == len(b)
	case map[string]any:
		b, ok := b.(map[string]any)
		for name := range a {
			if !ok || len(a) != len(b) || !same(a[name], b[name]) {
				return false
			}
		}
		return ok && len(a) == len(b)
	}
	return reflect.DeepEqual(a, b)
}

func TestCommitmentsAreBounded(t *testing.T) {
	plan := strategy.Strategy{Tools: []string{}, Hosts: []string{host}, Model: "m",
		Calls: strategy.Calls{Min: 1, Max: 1000}}
	const salt = "AAAAAAAAAAAAAAAAAAAAAA"
	judged := func(nonces, hashes int) int64 {
		s := autonomy.NewSession([]string{host})
		add := func(nonce, hash string) {
			s.Add("", &interaction.Receipt{
				Outcome: interaction.OutcomeCompleted,
				Model: &interaction.ModelCall{Host: host, Model: "m",
					Figures: interaction.ModelFigures{ToolCallsMade: interaction.Observed(0)}},
				Challenge: &interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash, CommitmentRevealed: true},
			})
		}
		for i := range nonces {
			add(tagOf("nonce", i), tagOf("hash", i))
		}
		for i := range hashes {
			add("n", tagOf("hash", i))
		}
		hash, err := strategy.Commitment("n", salt, plan)
		check.Must(t, err)
		add("n", hash)
		return autonomy.Appraise(s,
			[]autonomy.Challenge{{Nonce: "n", Issued: 1, Committed: 2, Commitment: hash, Salt: salt, Strategy: &plan}},
			nil).Signals.Challenge.Passed
	}
	for _, test := range []struct {
		nonces, hashes int
		passed         int64
	}{{0, 0, 1}, {63, 3, 1}, {64, 0, 0}, {0, 4, 0}} {
		if got := judged(test.nonces, test.hashes); got != test.passed {
			t.Errorf("after %d other nonces and %d other hashes %d are passed", test.nonces, test.hashes, got)
		}
	}
}
