package main

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"

	"github.com/actionproof/mediator/evidence/interaction"
	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/tools/autonomy"
)

// committed returns a session's receipts and challenges with strategies. A synthetic session only says whether a
// strategy was kept: a kept one names what the receipts show, and one that was not kept has a wrong number of calls.
func committed(s autonomy.Session) ([]interaction.Receipt, []appraisal.Challenge) {
	receipts, out := slices.Clone(s.Receipts), make([]appraisal.Challenge, 0, len(s.Challenges))
	for _, c := range s.Challenges {
		made := appraisal.Challenge{Nonce: c.Nonce, Issued: c.Issued, Committed: c.Committed}
		if c.Commitment == "" {
			out = append(out, made)
			continue
		}
		plan := planOf(receipts, c)
		made.Salt = saltOf(c.Nonce)
		hash, err := strategy.Commitment(c.Nonce, made.Salt, plan)
		if err != nil {
			panic("judge: " + err.Error()) // a plan is sound by construction
		}
		made.Commitment = hash
		if c.Revealed != 0 {
			made.Strategy = &plan
		}
		for i, r := range receipts {
			if ref := r.Challenge; ref != nil && ref.ChallengeNonce == c.Nonce && ref.CommitmentHash != "" {
				receipts[i].Challenge = &interaction.ChallengeRef{ChallengeNonce: c.Nonce, CommitmentHash: hash,
					CommitmentRevealed: ref.CommitmentRevealed}
			}
		}
		out = append(out, made)
	}
	return receipts, out
}

// planOf returns the strategy of an agent that knew what it would do.
func planOf(receipts []interaction.Receipt, c autonomy.Challenge) strategy.Strategy {
	from := slices.IndexFunc(receipts, func(r interaction.Receipt) bool {
		return r.Challenge != nil && r.Challenge.ChallengeNonce == c.Nonce && r.Challenge.CommitmentHash != ""
	})
	plan := strategy.Strategy{Tools: []string{}, Hosts: []string{}, Model: "none"}
	models := make(map[string]int)
	for _, r := range receipts[max(0, from):] {
		if m := r.Model; m != nil {
			plan.Calls.Max++
			plan.Hosts = append(plan.Hosts, m.Host)
			plan.Tools = append(plan.Tools, m.HostedTools...)
			for _, call := range m.ToolCalls {
				plan.Tools = append(plan.Tools, call.Tool)
			}
			if models[m.Model]++; m.Model != "" && models[m.Model] > models[plan.Model] {
				plan.Model = m.Model
			}
		}
		for _, relayed := range r.Relayed {
			plan.Hosts, plan.Tools = append(plan.Hosts, relayed.Host), append(plan.Tools, relayed.Tool)
		}
	}
	plan.Hosts, plan.Tools = names(plan.Hosts), names(plan.Tools)
	plan.Calls.Max = max(1, plan.Calls.Max)
	if !c.Kept {
		plan.Calls.Max++
	}
	plan.Calls.Min = plan.Calls.Max
	return plan
}

// names returns the distinct names that a strategy can have.
func names(list []string) []string {
	list = slices.DeleteFunc(list, func(name string) bool { return name == "" || len(name) > strategy.MaxName })
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), strategy.MaxNames)]
}

func saltOf(nonce string) string {
	sum := sha256.Sum256([]byte("salt " + nonce))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
