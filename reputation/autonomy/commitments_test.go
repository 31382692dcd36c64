package autonomy_test

import (
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
)

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
