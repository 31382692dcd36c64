package rating

import (
	"math"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

// What seed 002 leaves open. The simulation in tools/simulate shows what each value does; docs/adr says why it is this one.
const (
	window     = 20   // how many events, and how many signals, the last ones, are looked at
	levelOf    = 10   // how many outcomes in a row are a level; fewer are no measurement
	lowBand    = 0.30 // an outcome there, where the seed's band of low confidence ends, is neither good nor bad
	noise      = 0.12 // spread that the score of a steady agent has: nobody gains by less
	maxRAP     = 3.0
	jump       = 0.50 // between two outcomes that follow each other
	prior      = 20   // how many words of others halve the way of a share from one half, where it begins, to 1
	lossWeighs = 10   // how many words in favour one lost dispute weighs as much as
)

// history is what the log of an agent has said so far.
type history struct {
	agent       accrual.Agent
	scoringHash string
	events      []*event // in the order of their first sessions
	byID        map[string]*event
	flagged     int       // how many of the events came before the agent last lost a dispute
	signals     []float64 // what each is worth
	// Owners of the other agents. Each counts once, since an owner can have any number of agents.
	citedBy, survived, refuted map[string]bool
	lost                       map[string]bool // what the agent was accused of and lost
	failed                     int             // disputes that it has raised and lost
	spam                       float64         // Q's penalty for breaches of the rules, as of spamAt
	spamAt                     int64
}

// event is a verified event, with the sessions that it has opened.
type event struct{ sessions []accrual.Session }

func newHistory(agent accrual.Agent, scoringHash string) *history {
	return &history{
		agent: agent, scoringHash: scoringHash, byID: make(map[string]*event), lost: make(map[string]bool),
		citedBy: make(map[string]bool), survived: make(map[string]bool), refuted: make(map[string]bool),
	}
}

// add takes in an entry of the agent's log.
func (h *history) add(e accrual.Entry, at int64) {
	switch {
	case e.Session != nil:
		h.addSession(*e.Session)
	case e.Signal != nil:
		h.signals = append(h.signals, Transparency(*e.Signal))
	case e.Cited != nil:
		h.credit(h.citedBy, e.Cited.By)
	case e.Dispute != nil:
		h.addDispute(*e.Dispute)
	case e.Raised != nil:
		h.addRaised(*e.Raised)
	case e.Violation != nil:
		h.spam, h.spamAt = h.spamOf(at)+violationPenalty, at
	}
}

// addSession takes in a session, in the place of what was known of it. Scores by other formulas cannot be compared with these.
func (h *history) addSession(s accrual.Session) {
	if s.ScoringHash != h.scoringHash {
		return
	}
	e, known := h.byID[s.EventID]
	if !known {
		e = new(event)
		h.byID[s.EventID] = e
		h.events = append(h.events, e)
	}
	if i := slices.IndexFunc(e.sessions, func(old accrual.Session) bool { return old.ID == s.ID }); i >= 0 {
		e.sessions[i] = s
		return
	}
	e.sessions = append(e.sessions, s)
}

// addDispute takes in a dispute in which the agent was accused. One that is open, or has no winner, changes nothing.
func (h *history) addDispute(d accrual.Dispute) {
	switch d.Outcome {
	case accrual.TargetWins:
		h.credit(h.survived, d.Other)
	case accrual.ChallengerWins:
		h.lost[d.About] = true
		h.flagged = len(h.events)
	}
}

// addRaised takes in a dispute that the agent has raised.
func (h *history) addRaised(r accrual.Raised) {
	switch r.Outcome {
	case accrual.ChallengerWins:
		h.credit(h.refuted, r.Other)
	case accrual.TargetWins:
		h.failed++
	}
}

// credit counts the owner of another agent, once. It may not be the agent's own, and of an agent elsewhere nobody knows that it is not.
func (h *history) credit(owners map[string]bool, other string) {
	of, _ := accrual.ParseAgent(other) // what is no id is of no owner
	if !h.agent.SameOwner(of) {
		owners[of.Owner] = true
	}
}

// spamOf returns the penalty at a time, of which half is gone after seven days.
func (h *history) spamOf(at int64) float64 {
	return h.spam * math.Exp2(-float64(at-h.spamAt)/halfLife)
}

// outcome is what came of one event: the lowest score of its sessions, 0 to 1, and the hosts of models that it called.
type outcome struct {
	value float64
	hosts []string
	lost  bool // before the agent lost a dispute: it counts as nothing
}

// outcomes returns those of the last events, at most window. Events without an interaction that the appraiser believes are none.
func (h *history) outcomes() []outcome {
	last := make([]outcome, 0, window) // the last one first
	for i := len(h.events) - 1; i >= 0 && len(last) < window; i-- {
		o, counts := outcome{value: 100, lost: i < h.flagged}, false
		for _, s := range h.events[i].sessions {
			o.value = min(o.value, s.Score)
			o.hosts = append(o.hosts, s.Hosts...)
			counts = counts || s.Interactions > 0
		}
		if !counts {
			continue
		}
		o.value /= 100
		if o.lost {
			o.value = 0
		}
		last = append(last, o)
	}
	slices.Reverse(last)
	return last
}

// lacks says what there is too little of for a rating.
func (h *history) lacks() (lacks []string) {
	if len(h.outcomes()) < levelOf {
		lacks = append(lacks, "sessions")
	}
	if len(h.signals) == 0 {
		lacks = append(lacks, "signals")
	}
	return lacks
}

// inputs returns what follows from the log, but for the spam, which depends on the day too.
func (h *history) inputs() Inputs {
	outcomes := h.outcomes()
	m, spread := meanAndSpread(outcomes)
	return Inputs{
		Sigma: accrual.Round(max(0, spread-noise)), Drawdown: accrual.Round(drawdown(outcomes)),
		Transparency: accrual.Round(mean(h.signals[max(0, len(h.signals)-window):])),
		RAP:          accrual.Round(clamp((m-lowBand)/max(spread, noise), -maxRAP, maxRAP)),
		Adoption:     share(len(h.citedBy), 0), Survival: share(len(h.survived), len(h.lost)), Helpfulness: share(len(h.refuted), h.failed),
		Instability: pairs(outcomes, func(a, b outcome) bool { return math.Abs(accrual.Round(a.value-b.value)) > jump }),
		BandAbuse: pairs(outcomes, func(a, b outcome) bool {
			return !slices.ContainsFunc(a.hosts, func(host string) bool { return slices.Contains(b.hosts, host) })
		}),
	}
}

// share is the share of what speaks for an agent, by the rule of succession: 0.5 where nothing is known, and the first word decides little.
func share(favour, against int) float64 {
	return accrual.Round(float64(prior/2+favour) / float64(prior+favour+lossWeighs*against))
}

// drawdown returns the largest fall from the mean of some outcomes in a row to a later one. A lost dispute is a fall to nothing.
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

// pairs returns the share of outcomes that follow each other of which something holds.
func pairs(outcomes []outcome, holds func(a, b outcome) bool) float64 {
	n := 0
	for i := 1; i < len(outcomes); i++ {
		if holds(outcomes[i-1], outcomes[i]) {
			n++
		}
	}
	return accrual.Round(float64(n) / float64(len(outcomes)-1))
}

// meanAndSpread returns the mean of the outcomes and their standard deviation, as of a whole population.
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
