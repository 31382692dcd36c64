package accrual

import (
	"math"
	"slices"
	"strings"
)

// What seed 002 leaves open. tools/simulate shows the effect of each value, and docs/adr the reasons.
const (
	window     = 20   // recent events, and recent signals, that count
	levelOf    = 10   // consecutive outcomes that make a level; fewer are no measurement
	lowBand    = 0.30 // the end of the seed's band of low confidence: a neutral outcome
	noise      = 0.12 // the natural spread of a steady agent, below which no agent gains
	maxRAP     = 3.0
	jump       = 0.50 // a large step between consecutive outcomes
	prior      = 20   // statements by others that move a share halfway from 0.5 to 1
	lossWeighs = 10   // favourable statements that outweigh one lost dispute
)

// recorded is what only the rating keeps of a log.
type recorded struct {
	signals  []float64 // worth of each
	citedBy  owners
	days     []int   // with a closed signal of a registered agent without a sidecar: the events before each
	lostDays int     // before the last lost dispute
	day      int64   // the last of the days
	spam     float64 // Q's penalty for violations, as of spamAt
	spamAt   int64
}

// owners are the owners of other agents. Each counts once, since an owner can have any number of agents.
type owners map[string]bool

func (a *Account) record(e Entry, at int64) {
	switch {
	case e.Signal != nil:
		a.signals = append(a.signals, Transparency(*e.Signal))
		// The node sees no work of an agent without a sidecar but its signals.
		if a.agent.Owner == "" && e.Signal.Verification && midnight(at) > a.day {
			a.days, a.day = append(a.days, len(a.events)), midnight(at)
		}
	case e.Cited != nil:
		a.credit(a.citedBy, e.Cited.By)
	case e.Dispute != nil && e.Dispute.Outcome == ChallengerWins:
		a.lostDays = len(a.days)
	case e.Violation != nil:
		a.spam, a.spamAt = a.spamOf(at)+violationPenalty, at
	}
}

// credit counts another agent's owner once. It must be known, and not the agent's own.
func (a *Account) credit(to owners, other string) {
	// The entry has a valid id or none. To parse a did:key anew for each dispute of each day would take long.
	owner, _, _ := strings.Cut(other, ":")
	if owner != "" && owner != "did" && owner != a.agent.Owner {
		to[owner] = true
	}
}

func (a *Account) spamOf(at int64) float64 {
	return a.spam * math.Exp2(-float64(at-a.spamAt)/halfLife)
}

// outcome is the result of one event, 0 to 1, and the model hosts called.
type outcome struct {
	value float64
	hosts []string
	lost  bool // before a lost dispute: counts as 0
	event int  // its number, or that of the event before
}

// outcomes returns the last ones. The days of an agent without a sidecar are neutral, until it loses a dispute.
func (a *Account) outcomes() []outcome {
	var last []outcome
	for i := len(a.events) - 1; i >= 0 && len(last) < window; i-- {
		if o, counts := a.events[i].outcome(a.formulas); counts {
			o.lost, o.event = i < a.flagged, i+1
			last = append(last, o)
		}
	}
	slices.Reverse(last)
	for day := max(0, len(a.days)-window); day < len(a.days); day++ {
		last = append(last, outcome{lowBand, []string{""}, day < a.lostDays, a.days[day]})
	}
	slices.SortStableFunc(last, func(a, b outcome) int { return a.event - b.event })
	last = last[max(0, len(last)-window):]
	for i := range last {
		if last[i].lost {
			last[i].value = 0
		}
	}
	return last
}

// outcome is the lowest score of the event's sessions by these formulas, if they have an interaction.
func (e *event) outcome(scoringHash string) (o outcome, counts bool) {
	o.value = 1
	for _, s := range e.sessions {
		if s.ScoringHash == scoringHash {
			o.value, o.hosts = min(o.value, s.Score/100), append(o.hosts, s.Hosts...)
			counts = counts || s.Interactions > 0
		}
	}
	return o, counts
}

func (a *Account) lacks() (lacks []string) {
	if len(a.outcomes()) < levelOf {
		lacks = append(lacks, "sessions")
	}
	if len(a.signals) == 0 {
		lacks = append(lacks, "signals")
	}
	return lacks
}

// inputs returns the inputs except for the spam, which also depends on the day.
func (a *Account) inputs() Inputs {
	survived, lost, refuted, failed := make(owners), make(map[string]bool), make(owners), 0
	for _, d := range a.disputes {
		switch {
		case d.Outcome == TargetWins && !d.Raised:
			a.credit(survived, d.Other)
		case d.Outcome == ChallengerWins && !d.Raised:
			lost[d.About] = true
		case d.Outcome == ChallengerWins:
			a.credit(refuted, d.Other)
		case d.Outcome == TargetWins:
			failed++
		}
	}
	outcomes := a.outcomes()
	m, spread := meanAndSpread(outcomes)
	return Inputs{
		Sigma: Round(max(0, spread-noise)), Drawdown: Round(drawdown(outcomes)),
		Transparency: Round(mean(a.signals[max(0, len(a.signals)-window):])),
		RAP:          Round(clamp((m-lowBand)/max(spread, noise), -maxRAP, maxRAP)),
		Adoption:     share(len(a.citedBy), 0), Survival: share(len(survived), len(lost)),
		Helpfulness: share(len(refuted), failed),
		Instability: pairs(outcomes, func(a, b outcome) bool { return math.Abs(Round(a.value-b.value)) > jump }),
		BandAbuse: pairs(outcomes, func(a, b outcome) bool {
			return !slices.ContainsFunc(a.hosts, func(host string) bool { return slices.Contains(b.hosts, host) })
		}),
	}
}

// share is the rule of succession: 0.5 without statements, and the first ones decide little.
func share(favour, against int) float64 {
	return Round(float64(prior/2+favour) / float64(prior+favour+lossWeighs*against))
}

// drawdown returns the largest fall of the level. A lost dispute is a fall to 0.
func drawdown(outcomes []outcome) (most float64) {
	if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.lost }) {
		return 1
	}
	highest := 0.0
	for i := levelOf; i <= len(outcomes); i++ {
		level, _ := meanAndSpread(outcomes[i-levelOf : i])
		highest = max(highest, level)
		most = max(most, highest-level)
	}
	return most
}

func pairs(outcomes []outcome, holds func(a, b outcome) bool) float64 {
	n := 0
	for i := 1; i < len(outcomes); i++ {
		if holds(outcomes[i-1], outcomes[i]) {
			n++
		}
	}
	return Round(float64(n) / float64(len(outcomes)-1))
}

func meanAndSpread(outcomes []outcome) (m, spread float64) {
	values := make([]float64, len(outcomes))
	for i, o := range outcomes {
		values[i] = o.value
	}
	m = mean(values)
	squares := 0.0
	for _, v := range values {
		squares += float64((v - m) * (v - m))
	}
	return m, math.Sqrt(squares / float64(len(values)))
}
