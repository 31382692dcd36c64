package xray

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/actionproof/mediator/reputation/verification"
)

// The servers of 0xRay answer in other forms than its bridge in Groover expects; both are accepted. If an answer says
// something twice, the worse for the agent counts.

var errShape = errors.New("the answer has an unexpected form")

// orchestrated reads the answer of orchestrate-task: an object with success or status, or 0xRay's report in Markdown.
func orchestrated(raw []byte) (verification.Answer, error) {
	passed := verification.Answer{Status: verification.GatePassed}
	failed := verification.Answer{Status: verification.GateFailed}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		for line := range strings.Lines(string(raw)) {
			switch rest, ok := strings.CutPrefix(strings.TrimSpace(line), "**Success:**"); {
			case ok && strings.HasSuffix(rest, " COMPLETED"):
				return passed, nil
			case ok:
				return failed, nil
			}
		}
		return verification.Answer{}, errShape
	}
	var said struct {
		Success *bool  `json:"success"`
		Status  string `json:"status"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return verification.Answer{}, errShape
	}
	if said.Success != nil && !*said.Success || said.Status == "failed" || said.Status == "error" {
		return failed, nil
	}
	return passed, nil
}

// governed reads the answer of govern_proposals: decisions about the proposal, and an optional resonance from 0 to 1.
func governed(raw []byte, proposal string) (verification.Answer, error) {
	var said struct {
		Decision string `json:"decision"`
		Overall  string `json:"overallDecision"`
		Results  []struct {
			Proposal string `json:"proposalId"`
			Decision string `json:"finalDecision"`
		} `json:"results"`
		Resonance      *float64 `json:"resonance"`
		ResonanceScore *float64 `json:"resonanceScore"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return verification.Answer{}, err
	}
	a := verification.Answer{Status: verification.GatePassed}
	for _, resonance := range []*float64{said.ResonanceScore, said.Resonance} {
		if resonance == nil {
			continue
		}
		if *resonance < 0 || *resonance > 1 {
			return verification.Answer{}, errShape
		}
		a.Resonance = int64(math.Floor(*resonance*1000 + 1e-9))
	}
	var decisions []string
	for _, decision := range []string{said.Decision, said.Overall} {
		if decision != "" {
			decisions = append(decisions, decision)
		}
	}
	for _, result := range said.Results {
		if result.Proposal != proposal || result.Decision == "" {
			return verification.Answer{}, errShape
		}
		decisions = append(decisions, result.Decision)
	}
	if len(decisions) == 0 {
		return verification.Answer{}, errShape
	}
	approves := func(d string) bool { return strings.EqualFold(d, "approve") || strings.EqualFold(d, "approved") }
	if slices.ContainsFunc(decisions, func(d string) bool { return !approves(d) }) {
		a.Status = verification.GateFailed
	}
	return a, nil
}

// enforced reads the answer of codex-enforcement: a score from 0 to 100.
func enforced(raw []byte) (verification.Answer, error) {
	type scored struct {
		Score *float64 `json:"score"`
	}
	var said struct {
		scored
		Compliance *float64 `json:"complianceScore"`
		Result     scored   `json:"result"`
		Codex      scored   `json:"codexCheck"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return verification.Answer{}, err
	}
	var scores []float64
	for _, score := range []*float64{said.Score, said.Compliance, said.Result.Score, said.Codex.Score} {
		if score == nil {
			continue
		}
		if *score < 0 || *score > 100 {
			return verification.Answer{}, errShape
		}
		scores = append(scores, *score)
	}
	if len(scores) == 0 {
		return verification.Answer{}, errShape
	}
	return verification.Answer{Status: verification.GatePassed, Score: int64(slices.Min(scores))}, nil
}
