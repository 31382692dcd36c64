package accrual

import (
	"math"
	"slices"
)

const (
	// Window is the number of recent sessions in the current score.
	Window = 20
	// recent is the number of them that the trend compares with the earlier ones.
	recent = 5
	// steady is the largest difference in points of a stable trend.
	steady = 2
)

// Trends (seed: score_trend).
const (
	TrendRising  = "rising"
	TrendStable  = "stable"
	TrendFalling = "falling"
)

// Reputation follows from an agent's log (seed: AgentReputation, whose field names it keeps).
type Reputation struct {
	AgentID string `json:"agent_id"` // [Agent.String]
	Owner   string `json:"owner"`
	Agent   string `json:"agent"`

	// TotalInteractions counts at most one model call at a trusted host per verified event: one session could make up a
	// thousand. Flagged ones do not count for the tier.
	TotalInteractions   int64 `json:"total_interactions"`
	FlaggedInteractions int64 `json:"flagged_interactions"` // before the last lost dispute
	TotalSessions       int64 `json:"total_sessions"`       // all sessions of one event count as one
	FirstSeen           int64 `json:"first_seen"`           // Unix seconds; 0 for an empty log

	// CurrentScore is the mean of ScoreHistory plus DisputePoints, from 0 to 100. It is 0 without a history, and while the
	// agent is Disputed.
	CurrentScore float64 `json:"current_score"`
	ScoreTrend   string  `json:"score_trend"`
	// Lower is the lower end of the mean's 95 % interval (Student's t); 0 for fewer than two sessions. Lost points lower
	// it, but gained points do not raise it: two owners could let each other's agents win.
	Lower    float64 `json:"lower"`
	Coverage float64 `json:"coverage"`
	// Provisional marks a score from fewer than Window sessions.
	Provisional bool `json:"provisional"`
	// ScoreHistory has the last sessions, at most Window, scored by ScoringHash since the agent last lost a dispute. An
	// event with several sessions counts with its lowest score.
	ScoreHistory []ScoredSession `json:"score_history"`
	ScoringHash  string          `json:"scoringHash" form:"hash"`

	// Disputes that accuse the agent (seed: challenges)
	ChallengesReceived int64 `json:"challenges_received"`
	ChallengesWon      int64 `json:"challenges_won"`
	ChallengesLost     int64 `json:"challenges_lost"`
	// DisputesPending are the open ones among them. An accusation alone changes nothing.
	DisputesPending int64 `json:"disputes_pending,omitempty"`
	// Disputes that the agent raised and that ended with a winner.
	DisputesWon  int64 `json:"disputes_won,omitempty"`
	DisputesLost int64 `json:"disputes_lost,omitempty"`
	// DisputePoints are added to the score.
	DisputePoints int64 `json:"dispute_points,omitempty"`
	// Disputed marks an agent that lost a dispute, until Window sessions have been scored since.
	Disputed bool `json:"disputed"`

	Tier string `json:"tier"`
	Log  Log    `json:"log"`
}

// ScoredSession is one session of a score history.
type ScoredSession struct {
	Timestamp int64   `json:"timestamp" form:"time"` // of the log entry, Unix seconds
	Score     float64 `json:"score" form:"rounded:100"`
	SessionID string  `json:"session_id" form:"name:128"`
	Coverage  float64 `json:"coverage" form:"rounded:1"`
}

// Reputation returns the reputation. Sessions scored by other formulas count, but not for the score.
func (a *Account) Reputation() Reputation {
	r := Reputation{
		AgentID: a.agent.String(), Owner: a.agent.Owner, Agent: a.agent.Subject, TotalSessions: int64(len(a.events)),
		FirstSeen:    a.first,
		ScoreHistory: a.history(), ScoringHash: a.formulas, DisputePoints: a.disputePoints(), Log: a.log,
	}
	for i, e := range a.events {
		if !e.counts() {
			continue
		}
		r.TotalInteractions++
		if i < a.flagged {
			r.FlaggedInteractions++
		}
	}
	for _, d := range a.disputes {
		if !d.Raised {
			r.ChallengesReceived++
		}
		switch {
		case d.Raised && d.Outcome == ChallengerWins:
			r.DisputesWon++
		case d.Raised && d.Outcome == TargetWins:
			r.DisputesLost++
		case d.Outcome == TargetWins:
			r.ChallengesWon++
		case d.Outcome == ChallengerWins:
			r.ChallengesLost++
		case d.Outcome == "":
			r.DisputesPending++
		}
	}
	r.derive()
	return r
}

func (e *event) counts() bool {
	return slices.ContainsFunc(e.sessions, func(s scored) bool { return s.Interactions > 0 })
}

func (a *Account) history() []ScoredSession {
	history := make([]ScoredSession, 0, Window)
	for i := len(a.events) - 1; i >= a.flagged && len(history) < Window; i-- {
		if s, ok := a.events[i].lowest(a.formulas); ok {
			history = append(history, s)
		}
	}
	slices.Reverse(history)
	return history
}

// lowest returns the event's lowest-scored session by these formulas: another session cannot raise an event's score.
func (e *event) lowest(scoringHash string) (lowest ScoredSession, ok bool) {
	for _, s := range e.sessions {
		if s.ScoringHash == scoringHash && (!ok || s.Score < lowest.Score) {
			lowest, ok = ScoredSession{Timestamp: s.at, Score: s.Score, SessionID: s.ID, Coverage: s.Coverage}, true
		}
	}
	return lowest, ok
}

// derive computes what follows from the history and the counts. Readers of a token repeat it.
func (r *Reputation) derive() {
	n := len(r.ScoreHistory)
	scores, coverages := make([]float64, n), make([]float64, n)
	for i, s := range r.ScoreHistory {
		scores[i], coverages[i] = s.Score, s.Coverage
	}
	average, points := mean(scores), float64(r.DisputePoints)
	if n == 0 {
		points = 0 // there is no score that they could change
	}
	r.CurrentScore, r.Coverage = Round(min(max(average+points, 0), 100)), Round(mean(coverages))
	r.ScoreTrend, r.Lower = trend(scores), Round(max(lower(scores)+min(points, 0), 0))
	r.Provisional = n < Window
	if r.Disputed = r.ChallengesLost > 0 && n < Window; r.Disputed {
		r.CurrentScore, r.Lower = 0, 0
	}
	r.Tier = tierOf(min(r.CurrentScore, Round(average)), r.Counted(), r.ChallengesLost)
}

// Counted returns the interactions that count for the tier.
func (r *Reputation) Counted() int64 { return r.TotalInteractions - r.FlaggedInteractions }

// trend compares the last sessions with those before. Without earlier ones it is stable.
func trend(scores []float64) string {
	if len(scores) <= recent {
		return TrendStable
	}
	cut := len(scores) - recent
	switch change := Round(mean(scores[cut:]) - mean(scores[:cut])); {
	case change > steady:
		return TrendRising
	case change < -steady:
		return TrendFalling
	}
	return TrendStable
}

// student holds the 0.975 quantiles of Student's t for 1 to 19 degrees of freedom.
var student = [Window - 1]float64{
	12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
	2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930,
}

// lower returns the lower end of the mean's 95 % interval, at least 0. The conversions prevent fused multiply-add,
// which would round differently on some machines.
func lower(scores []float64) float64 {
	n := len(scores)
	if n < 2 {
		return 0
	}
	m, squares := mean(scores), 0.0
	for _, s := range scores {
		squares += float64((s - m) * (s - m))
	}
	half := float64(student[n-2] * math.Sqrt(squares/float64(n-1)/float64(n)))
	return Round(max(0, m-half))
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Round rounds to six decimals, because the last digits of a score depend on the order of additions. -0 becomes 0.
func Round(f float64) float64 { return math.Round(f*1e6)/1e6 + 0 }

// The tiers, lowest first (seed: tier).
const (
	TierNew         = "new"
	TierBuilding    = "building"
	TierEstablished = "established"
	TierTrusted     = "trusted"
	TierVerified    = "verified"
)

// tiers need both thresholds (seed: TIERS). An agent that lost a dispute never reaches a spotless one.
var tiers = []tierFrom{
	{TierNew, 0, 0, false},
	{TierBuilding, 30, 10, false},
	{TierEstablished, 50, 100, false},
	{TierTrusted, 70, 500, true},
	{TierVerified, 85, 1000, true},
}

type tierFrom struct {
	name         string
	score        float64
	interactions int64
	spotless     bool
}

// tierOf returns the highest tier reached. score excludes points from disputes: they raise no tier.
func tierOf(score float64, interactions, lost int64) string {
	reached := TierNew
	for _, t := range tiers {
		if score >= t.score && interactions >= t.interactions && (lost == 0 || !t.spotless) {
			reached = t.name
		}
	}
	return reached
}

// Rank returns the position of a tier, from 0 (new) to 4 (verified), or -1 for an unknown tier.
func Rank(tier string) int64 {
	return int64(slices.IndexFunc(tiers, func(t tierFrom) bool { return t.name == tier }))
}
