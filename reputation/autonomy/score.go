// Package autonomy computes the autonomy score of one session from its interaction receipts (VIN v0.4). It does no I/O
// and has no clock. The formulas are data with a version and a hash (formulas.json); docs/autonomy.md explains them.
//
// A [Session] takes verified receipts one by one, and [Appraise] computes the [Score] so far. [Claims] go into the
// token that carries a score. A [Baseline] is made of [Sample]s of an owner's earlier sessions.
package autonomy

import (
	"math"
	"slices"
)

// Part is one part of a signal.
type Part struct {
	Name   string  `json:"name" form:"name:256"`
	Of     float64 `json:"of"`
	Points float64 `json:"points"`
	Value  float64 `json:"value"` // the measured value behind the points
	N      int64   `json:"n" form:"count"`
	State  string  `json:"state" form:"observed|declared|not_measured"`
}

// Signal is what all signals share: points, how they are known, and parts.
type Signal struct {
	Score float64 `json:"score"`
	State string  `json:"state" form:"observed|declared|not_measured"` // the weakest of the measured parts
	Parts []Part  `json:"parts"`
}

// TimingSignal is the seed's timing signal.
type TimingSignal struct {
	Latency  float64 `json:"llm_latency_ms"`
	Speed    float64 `json:"tokens_per_second"`
	Variance float64 `json:"latency_variance"`
	Signal
}

// RecursionSignal is the seed's signal about chains of reasoning.
type RecursionSignal struct {
	ChainLength    float64 `json:"chain_length"`
	SelfReferences float64 `json:"self_references"`
	ReasoningDepth float64 `json:"reasoning_depth"`
	Signal
}

// KnowledgeSignal is the seed's signal about breadth and consistency.
type KnowledgeSignal struct {
	Domains     []string `json:"domains_touched"`
	Consistency float64  `json:"consistency_score"`
	Superhuman  float64  `json:"superhuman_indicators"`
	Signal
}

// EntropySignal is the seed's signal about the session as a whole.
type EntropySignal struct {
	Duration float64 `json:"session_duration_ms"`
	Count    int64   `json:"interaction_count"`
	Response float64 `json:"response_entropy"` // bits a word
	Fatigue  float64 `json:"fatigue_indicators"`
	Signal
}

// ChallengeSignal is the seed's signal about commitments.
type ChallengeSignal struct {
	Issued   int64   `json:"challenges_issued"`
	Passed   int64   `json:"challenges_passed"`
	Accuracy float64 `json:"commitment_accuracy"`
	Signal
}

// Signals are the five signals.
type Signals struct {
	Timing    TimingSignal    `json:"timing"`
	Recursion RecursionSignal `json:"recursion"`
	Knowledge KnowledgeSignal `json:"knowledge"`
	Entropy   EntropySignal   `json:"entropy"`
	Challenge ChallengeSignal `json:"challenge"`
}

// Interval is a jackknife interval for the composite.
type Interval struct {
	Level    float64   `json:"level"`
	Lower    float64   `json:"lower"`
	Upper    float64   `json:"upper"`
	LeaveOut []float64 `json:"leave_out"` // the composite without each block; empty with too few calls
}

// Coverage is the observed share of the session's outbound calls and bytes.
type Coverage struct {
	Calls         int64   `json:"calls"`
	CallsObserved int64   `json:"calls_observed"`
	Bytes         int64   `json:"bytes_out"`
	BytesObserved int64   `json:"bytes_out_observed"`
	Share         float64 `json:"share"`
}

// Score is the autonomy score of a session so far.
type Score struct {
	Composite    float64  `json:"score"`        // 0 to 100
	SeedWeighted float64  `json:"seedWeighted"` // by the seed's formula, at most 20.25
	Band         string   `json:"band" form:"name:256"`
	N            int64    `json:"n" form:"count"` // answered calls
	OtherCalls   int64    `json:"otherCalls" form:"count"`
	Interval     Interval `json:"interval"`
	Coverage     Coverage `json:"coverage"`
	ModelHosts   []string `json:"modelHosts"`
	Signals      Signals  `json:"signals"`
}

// Appraise scores a session so far, with the owner's baseline or nil. It must not run beside [Session.Add].
func Appraise(s *Session, challenges []Challenge, b *Baseline) Score {
	issued := s.judgeAll(challenges)
	v := &view{s: s, baseline: b.of(s.models), answers: s.agreement(challenges), issued: issued}
	parts := v.parts()
	out := Score{N: int64(len(s.calls)), OtherCalls: s.other, Coverage: s.coverage(), ModelHosts: sorted(s.hosts)}
	out.Composite, out.SeedWeighted = parts.composite()
	out.Band = bandOf(out.Composite)
	out.Interval = v.interval(out.Composite, parts)
	out.Signals = v.signals(parts)
	c := &out.Signals.Challenge
	c.Issued, c.Passed, c.Accuracy = issued.issued, issued.passed, issued.accuracy()
	return out
}

func (s *Session) coverage() Coverage {
	t := s.totals
	out := Coverage{Calls: t.Calls, CallsObserved: t.CallsObserved, Bytes: t.BytesOut, BytesObserved: t.BytesOutObserved}
	if t.Calls > 0 {
		out.Share = float64(t.CallsObserved) / float64(t.Calls)
		if t.BytesOut > 0 {
			out.Share = min(out.Share, float64(t.BytesOutObserved)/float64(t.BytesOut))
		}
	}
	return out
}

// bandOf returns the band of a composite. It rounds, because the last digits depend on the order of additions.
func bandOf(composite float64) string {
	rounded := math.Floor(composite*1e9+0.5) / 1e9
	name := ""
	for _, b := range formula.Bands {
		if b.From <= rounded {
			name = b.Name
		}
	}
	return name
}

func (v *view) signals(p parts) (s Signals) {
	for i, signal := range s.list() {
		*signal = p.signal(i)
	}
	s.Timing.Latency, s.Timing.Speed, s.Timing.Variance = v.latency()
	s.Recursion.ChainLength, s.Recursion.ReasoningDepth = p.value("chain"), p.value("depth")
	_, s.Recursion.SelfReferences = v.references()
	s.Knowledge.Domains, s.Knowledge.Consistency = []string{}, p.value("agreement")
	for _, d := range v.s.domains {
		s.Knowledge.Domains = append(s.Knowledge.Domains, d.name)
	}
	slices.Sort(s.Knowledge.Domains)
	s.Knowledge.Superhuman = p.value("superhuman")
	s.Entropy.Duration, s.Entropy.Count, s.Entropy.Fatigue = v.span, int64(v.len()), p.value("fatigue")
	s.Entropy.Response = v.response()
	return s
}
