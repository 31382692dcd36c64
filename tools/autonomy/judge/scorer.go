package main

import (
	"slices"
	"strings"

	appraisal "github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/tools/autonomy"
)

// believed is the group [autonomy.Fake] for a verifier that trusts its hosts.
const (
	believed    = autonomy.Fake + andBelieved
	andBelieved = ", believed"
)

// groups returns the groups in the order of the table.
func groups() []string {
	at := slices.Index(autonomy.Groups, autonomy.Fake) + 1
	return slices.Insert(slices.Clone(autonomy.Groups), at, believed)
}

// baselinesOf returns a baseline for each group, from n sessions of that group for each of the seeds after seed.
func baselinesOf(n int, seed uint64, seeds int) (map[string]*appraisal.Baseline, error) {
	samples := make(map[string][]appraisal.Sample)
	for i := range seeds {
		sessions, err := autonomy.Make(n, seed+1+uint64(i))
		if err != nil {
			return nil, err
		}
		for _, s := range sessions {
			measured := appraisal.NewSession(slices.Concat(autonomy.BelievedHosts, autonomy.FakeHosts))
			for r := range s.Receipts {
				measured.Add("", &s.Receipts[r])
			}
			samples[s.Group] = append(samples[s.Group], measured.Sample())
		}
	}
	baselines := make(map[string]*appraisal.Baseline)
	for _, g := range groups() {
		b := appraisal.NewBaseline(g, samples[strings.TrimSuffix(g, andBelieved)])
		baselines[g] = &b
	}
	return baselines, nil
}

// scoresOf returns the scores of sessions by group.
func scoresOf(sessions []autonomy.Session, baselines map[string]*appraisal.Baseline) map[string][]float64 {
	scores := make(map[string][]float64)
	score := func(group string, s autonomy.Session, hosts []string) {
		receipts, challenges := committed(s)
		measured := appraisal.NewSession(hosts)
		for i := range receipts {
			measured.Add("", &receipts[i])
		}
		scores[group] = append(scores[group], appraisal.Appraise(measured, challenges, baselines[group]).Composite)
	}
	for _, s := range sessions {
		score(s.Group, s, autonomy.BelievedHosts)
		if s.Group == autonomy.Fake {
			score(believed, s, slices.Concat(autonomy.BelievedHosts, autonomy.FakeHosts))
		}
	}
	return scores
}
