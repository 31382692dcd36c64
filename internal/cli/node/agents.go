package node

import (
	"cmp"
	"fmt"
	"io"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/accrual"
)

func drawAgents(w io.Writer, all []accrual.Reputation) error {
	t := cli.Table(w, "AGENT", "TIER", "SCORE", "TREND", "SESSIONS", "INTERACTIONS", "DISPUTES")
	for _, r := range all {
		t.Row(r.AgentID, r.Tier, fmt.Sprintf("%.1f%s", r.CurrentScore, provisional(r)), r.ScoreTrend, r.TotalSessions,
			r.Counted(),
			fmt.Sprintf("%d received, %d lost%s", r.ChallengesReceived, r.ChallengesLost, disputed(r)))
	}
	return t.Flush()
}

func provisional(r accrual.Reputation) string {
	if r.Provisional {
		return " (provisional)"
	}
	return ""
}

func disputed(r accrual.Reputation) string {
	if r.Disputed {
		return ", disputed"
	}
	return ""
}

func drawReputation(w io.Writer, c accrual.Claims) error {
	r := c.Reputation
	fmt.Fprintf(w, "agent         %s\nowner         %s\n", cli.Unbroken(r.Agent),
		cmp.Or(r.Owner, "none: the agent has a key of its own"))
	fmt.Fprintf(w, "tier          %s\n", r.Tier)
	fmt.Fprintf(w, "score         %.1f of 100%s, %s; the 95 %% interval begins at %.1f\n", r.CurrentScore, provisional(r),
		r.ScoreTrend, r.Lower)
	fmt.Fprintf(w, "coverage      %.0f %%\n", 100*r.Coverage)
	fmt.Fprintf(w, "sessions      %d\ninteractions  %d that count, %d flagged\n", r.TotalSessions, r.Counted(),
		r.FlaggedInteractions)
	fmt.Fprintf(w, "disputes      %d received: %d won, %d lost, %d open%s\n", r.ChallengesReceived, r.ChallengesWon,
		r.ChallengesLost, r.DisputesPending, disputed(r))
	fmt.Fprintf(w, "raised        %d won, %d lost; all disputes count for %d points of the score\n", r.DisputesWon,
		r.DisputesLost, r.DisputePoints)
	fmt.Fprintf(w, "verification  %s\n", verified(c.Verification))
	fmt.Fprintf(w, "rating        %s\n", rated(c.Rating))
	fmt.Fprintf(w, "log           %d entries, %s\nformulas      %s\n", r.Log.Entries, r.Log.Head, r.ScoringHash)
	for _, s := range r.ScoreHistory {
		fmt.Fprintf(w, "\n%s  %5.1f  %s", cli.Seconds(s.Timestamp), s.Score, cli.Unbroken(s.SessionID))
	}
	if len(r.ScoreHistory) > 0 {
		fmt.Fprintln(w)
	}
	_, err := io.WriteString(w, whatReputationsAre)
	return err
}

func verified(v *accrual.Verified) string {
	if v == nil {
		return "none that was passed through its sidecar, and is not over"
	}
	text := fmt.Sprintf("passed %s in the mode %s, good until %s", cli.Seconds(v.At), v.Mode, cli.Seconds(v.Expires))
	if v.Degraded {
		text += ", degraded"
	}
	return text
}

func rated(r *accrual.Rated) string {
	if r == nil {
		return "not measured"
	}
	return fmt.Sprintf("R %.1f of 100, tier %s; Q %.2f of %d", r.R, r.Tier, r.Q, accrual.MaxQ)
}

// ReputationFacts says in one line what conditions of a policy can ask of a reputation.
func ReputationFacts(c accrual.Claims) string {
	r := c.Reputation
	text := fmt.Sprintf("%s: score %.1f (at least %.1f), %d interactions, %.0f %% observed", r.Tier, r.CurrentScore,
		r.Lower, r.Counted(), 100*r.Coverage)
	if r.Provisional {
		text += ", provisional"
	}
	text += disputed(r)
	if r.DisputesPending > 0 {
		text += fmt.Sprintf(", open disputes %d", r.DisputesPending)
	}
	if c.Verification != nil {
		text += ", verification " + verified(c.Verification)
	}
	if c.Rating != nil {
		text += ", " + rated(c.Rating)
	}
	return text + ", formulas " + cli.Short(r.ScoringHash)
}

const whatReputationsAre = `
A reputation is the likelihood that an agent works by itself, as far as the receipts of its closed sessions show. It
proves nothing of any post.
nonHumanIdentityProven: false
`
