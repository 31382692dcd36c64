package main

import (
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence/interaction"
	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/tools/autonomy"
)

// variant is one way to appraise the sessions: what differs is what they do not say themselves.
type variant struct {
	name      string
	baselines map[string]*appraisal.Baseline // by group; a group without one has none
	waits     bool                           // agents call no model between a challenge and their commitment
}

// score is the [Scorer] of the variant: the mediator's own appraisal.
func (v variant) score(s autonomy.Session, believedHosts []string) (score, lower float64, parts map[string]part) {
	receipts, challenges := committed(s, v.waits)
	measured := appraisal.NewSession(believedHosts)
	for i := range receipts {
		measured.Add("", &receipts[i])
	}
	out := appraisal.Appraise(measured, challenges, v.baselines[s.Group])
	parts = make(map[string]part)
	for _, p := range partsOfScore(out) {
		parts[p.Name] = part{p.Points, p.State != interaction.StateNotMeasured}
	}
	return out.Composite, out.Interval.Lower, parts
}

// partsOfScore returns the parts of all signals, in their order.
func partsOfScore(s appraisal.Score) []appraisal.Part {
	return slices.Concat(s.Signals.Timing.Parts, s.Signals.Recursion.Parts, s.Signals.Knowledge.Parts,
		s.Signals.Entropy.Parts, s.Signals.Challenge.Parts)
}

// variants returns the variants to judge, the one whose results are shown in full first. Baselines are made of sessions
// of the seeds after seed, of so many as are given, with n sessions of each group. An owner runs sessions of one group,
// so its baseline is made of those.
func variants(n int, seed uint64, seeds int) ([]variant, error) {
	samples := make(map[string][]appraisal.Sample)
	for i := range seeds {
		sessions, err := autonomy.Make(n, seed+1+uint64(i))
		if err != nil {
			return nil, err
		}
		for _, s := range sessions {
			measured := appraisal.NewSession(append(slices.Clone(autonomy.BelievedHosts), autonomy.FakeHosts...))
			for r := range s.Receipts {
				measured.Add("", &s.Receipts[r])
			}
			samples[s.Group] = append(samples[s.Group], measured.Sample())
		}
	}
	own, steady := make(map[string]*appraisal.Baseline), make(map[string]*appraisal.Baseline)
	ofSteady := appraisal.NewBaseline(autonomy.Steady, samples[autonomy.Steady])
	for _, g := range groups() {
		b := appraisal.NewBaseline(g, samples[strings.TrimSuffix(g, andBelieved)])
		own[g], steady[g] = &b, &ofSteady
	}
	return []variant{
		{name: "as above", baselines: own},
		{name: "baseline of steady agents", baselines: steady},
		{name: "no baseline"},
		{name: "agents that wait", baselines: own, waits: true},
	}, nil
}
