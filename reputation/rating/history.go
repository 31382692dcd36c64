package rating

import (
	"math"
	"slices"

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

type history struct {
	agent       accrual.Agent
	scoringHash string
	events      []*event // in the order of their first sessions
	byID        map[string]*event
	flagged     int       // events before the last lost dispute
	signals     []float64 // worth of each
	// Owners of other agents. Each counts once, since an owner can have any number of agents.
	citedBy, survived, refuted map[string]bool
	lost                       map[string]bool // objects of disputes lost as the accused
	day                        int64           // of the last signal of a registered agent without a sidecar
	failed                     int             // own disputes lost
	spam                       float64         // Q's penalty for violations, as of spamAt
	spamAt                     int64
}

type event struct{ sessions []accrual.Session }

func newHistory(agent accrual.Agent, scoringHash string) *history {
	return &history{
		agent: agent, scoringHash: scoringHash, byID: make(map[string]*event), lost: make(map[string]bool),
		citedBy: make(map[string]bool), survived: make(map[string]bool), refuted: make(map[string]bool),
	}
}

func (h *history) add(e accrual.Entry, at int64) {
	switch {
	case e.Session != nil:
		h.addSession(*e.Session)
	case e.Signal != nil:
		h.signals = append(h.signals, Transparency(*e.Signal))
		h.addDay(*e.Signal, at)
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

// addSession adds or replaces a session. Scores by other formulas are not comparable.
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

// addDay adds a day for an agent without a sidecar: it has no sessions, so all that the node sees of its work are the
// days with a closed signal of a registered agent. They are neutral outcomes, until a dispute is lost.
func (h *history) addDay(s accrual.Signal, at int64) {
	if h.agent.Owner != "" || !s.Verification || midnight(at) <= h.day {
		return
	}
	h.day = midnight(at)
	h.events = append(h.events, &event{sessions: []accrual.Session{{Score: 100 * lowBand, Interactions: 1,
		Hosts: []string{""}}}})
}

// addDispute adds a dispute as the accused. Open and inconclusive ones change nothing.
func (h *history) addDispute(d accrual.Dispute) {
	switch d.Outcome {
	case accrual.TargetWins:
		h.credit(h.survived, d.Other)
	case accrual.ChallengerWins:
		h.lost[d.About] = true
		h.flagged = len(h.events)
	}
}

func (h *history) addRaised(r accrual.Raised) {
	switch r.Outcome {
	case accrual.ChallengerWins:
		h.credit(h.refuted, r.Other)
	case accrual.TargetWins:
		h.failed++
	}
}

// credit counts another agent's owner once. It must be known, and not the agent's own.
func (h *history) credit(owners map[string]bool, other string) {
	of, _ := accrual.ParseAgent(other) // an invalid id has no owner
	if of.Owner != "" && of.Owner != h.agent.Owner {
		owners[of.Owner] = true
	}
}

func (h *history) spamOf(at int64) float64 {
	return h.spam * math.Exp2(-float64(at-h.spamAt)/halfLife)
}

// outcome is the result of one event: the lowest score of its sessions, 0 to 1, and the model hosts called.
type outcome struct {
	value float64
	hosts []string
	lost  bool // before a lost dispute: counts as 0
}

// outcomes returns the last outcomes, at most window. Events without a trusted interaction have none.
func (h *history) outcomes() []outcome {
	last := make([]outcome, 0, window) // latest first
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

func (h *history) lacks() (lacks []string) {
	if len(h.outcomes()) < levelOf {
		lacks = append(lacks, "sessions")
	}
	if len(h.signals) == 0 {
		lacks = append(lacks, "signals")
	}
	return lacks
}

// inputs returns the inputs except for the spam, which also depends on the day.
func (h *history) inputs() Inputs {
	outcomes := h.outcomes()
	m, spread := meanAndSpread(outcomes)
	return Inputs{
		Sigma: accrual.Round(max(0, spread-noise)), Drawdown: accrual.Round(drawdown(outcomes)),
		Transparency: accrual.Round(mean(h.signals[max(0, len(h.signals)-window):])),
		RAP:          accrual.Round(clamp((m-lowBand)/max(spread, noise), -maxRAP, maxRAP)),
		Adoption:     share(len(h.citedBy), 0), Survival: share(len(h.survived), len(h.lost)),
		Helpfulness: share(len(h.refuted), h.failed),
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
