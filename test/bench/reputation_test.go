package main

import (
	"math"
	"testing"
)

// TestSummarizeReputation: what slows both down in a round counts for neither.
func TestSummarizeReputation(t *testing.T) {
	without, with := &poster{posts: 10, cpu: 0.02}, &poster{posts: 10, cpu: 0.03}
	for i := range 100 {
		slow := float64(1 + i%7)
		without.medians, with.medians = append(without.medians, 1000*slow), append(with.medians, 1000*slow*(1+float64(i)/1000))
	}
	r := reputationCost{Most: mostRatio}
	r.summarize(without, with)
	if math.Abs(r.Ratio-1.05) > 1e-9 || math.Abs(r.Low-1.04) > 1e-9 || math.Abs(r.High-1.06) > 1e-9 || r.Within {
		t.Errorf("%+v", r)
	}
	if r.Without.CPU != 2 || r.With.CPU != 3 || r.With.Posts != 10 {
		t.Errorf("%+v", r)
	}
}
