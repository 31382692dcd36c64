package rating

import (
	"math"
	"slices"
	"strings"

	"github.com/actionproof/mediator/reputation/accrual"
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

// history is what only the rating keeps of a log.
type history struct {
	agent       accrual.Agent
	scoringHash string
	signals     []float64 // worth of each
	citedBy     owners
	days        []int   // with a closed signal of a registered agent without a sidecar: the events before each
	lostDays    int     // before the last lost dispute
	day         int64   // the last of the days
	spam        float64 // Q's penalty for violations, as of spamAt
	spamAt      int64
}

// owners are the owners of other agents. Each counts once, since an owner can have any number of agents.
type owners map[string]bool

func (a *Account) add(e accrual.Entry, at int64) {
	h := &a.history
	switch {
	case e.Signal != nil:
		h.signals = append(h.signals, Transparency(*e.Signal))
		// The node sees no work of an agent without a sidecar but its signals.
		if h.agent.Owner == "" && e.Signal.Verification && midnight(at) > h.day {
			h.days, h.day = append(h.days, a.Events()), midnight(at)
		}
	case e.Cited != nil:
		h.credit(h.citedBy, e.Cited.By)
	case e.Dispute != nil && e.Dispute.Outcome == accrual.ChallengerWins:
		h.lostDays = len(h.days)
	case e.Violation != nil:
		h.spam, h.spamAt = h.spamOf(at)+violationPenalty, at
	}
}

// credit counts another agent's owner once. It must be known, and not the agent's own.
func (h *history) credit(to owners, other string) {
	// The entry has a valid id or none. To parse a did:key anew for each dispute of each day would take long.
	owner, _, _ := strings.Cut(other, ":")
	if owner != "" && owner != "did" && owner != h.agent.Owner {
		to[owner] = true
	}
}

func (h *history) spamOf(at int64) float64 {
	return h.spam * math.Exp2(-float64(at-h.spamAt)/halfLife)
}

// outcome is the result of one event, 0 to 1, and the model hosts called.
type outcome struct {
	value float64
	hosts []string
	lost  bool // before a lost dispute: counts as 0
	event int  // its number, or that of the event before
}

// outcomes returns the last outcomes, at most window. The days of an agent without a sidecar are neutral ones, until a
// dispute is lost.
func (a *Account) outcomes() []outcome {
	var last []outcome
	for _, o := range a.Outcomes(a.scoringHash, window) {
		last = append(last, outcome{o.Score / 100, o.Hosts, o.Flagged, o.Event})
	}
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
	for d := range a.Disputes() {
		switch {
		case d.Outcome == accrual.TargetWins && !d.Raised:
			a.credit(survived, d.Other)
		case d.Outcome == accrual.ChallengerWins && !d.Raised:
			lost[d.About] = true
		case d.Outcome == accrual.ChallengerWins:
			a.credit(refuted, d.Other)
		case d.Outcome == accrual.TargetWins:
			failed++
		}
	}
	outcomes := a.outcomes()
	m, spread := meanAndSpread(outcomes)
	return Inputs{
		Sigma: accrual.Round(max(0, spread-noise)), Drawdown: accrual.Round(drawdown(outcomes)),
		Transparency: accrual.Round(mean(a.signals[max(0, len(a.signals)-window):])),
		RAP:          accrual.Round(clamp((m-lowBand)/max(spread, noise), -maxRAP, maxRAP)),
		Adoption:     share(len(a.citedBy), 0), Survival: share(len(survived), len(lost)),
		Helpfulness: share(len(refuted), failed),
		Instability: pairs(outcomes, func(a, b outcome) bool { return math.Abs(accrual.Round(a.value-b.value)) > jump }),
		BandAbuse: pairs(outcomes, func(a, b outcome) bool {
			return !slices.ContainsFunc(a.hosts, func(host string) bool { return slices.Contains(b.hosts, host) })
		}),
	}
}

// share is the rule of succession: 0.5 without statements, and the first ones decide little.
func share(favour, against int) float64 {
	return accrual.Round(float64(prior/2+favour) / float64(prior+favour+lossWeighs*against))
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
	return accrual.Round(float64(n) / float64(len(outcomes)-1))
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

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
