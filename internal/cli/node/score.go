package node

import (
	"fmt"
	"io"
	"strings"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/autonomy"
)

func drawScore(w io.Writer, c autonomy.Claims) error {
	state := "open: the score can change"
	if c.Closed {
		state = "closed"
	}
	fmt.Fprintf(cli.Lines(w), "session   %s of %s, %s\n", c.Session, c.Agent, state)
	fmt.Fprintf(w, "owner     %s\n", c.Owner)
	fmt.Fprintf(w, "score     %.1f of 100, %s; %.0f %% interval %.1f to %.1f\n", c.Composite, c.Band, 100*c.Interval.Level,
		c.Interval.Lower, c.Interval.Upper)
	fmt.Fprintf(w, "rests on  %d answered calls of models, in receipts 1 to %d\n\n", c.N, c.HeadNumber)
	t, r, k, e, ch := &c.Signals.Timing, &c.Signals.Recursion, &c.Signals.Knowledge, &c.Signals.Entropy,
		&c.Signals.Challenge
	for _, s := range []struct {
		name   string
		signal autonomy.Signal
		fields string // the seed's, by their names
	}{
		{"timing", t.Signal,
			fmt.Sprintf("llm_latency_ms %.0f, tokens_per_second %.1f, latency_variance %.0f", t.Latency, t.Speed, t.Variance)},
		{"recursion", r.Signal,
			fmt.Sprintf("chain_length %.0f, self_references %.0f, reasoning_depth %.0f", r.ChainLength, r.SelfReferences,
				r.ReasoningDepth)},
		{"knowledge", k.Signal,
			fmt.Sprintf("domains_touched %d, consistency_score %.2f, superhuman_indicators %.0f", len(k.Domains), k.Consistency,
				k.Superhuman)},
		{"entropy", e.Signal,
			fmt.Sprintf("session_duration_ms %.0f, interaction_count %d, response_entropy %.2f, fatigue_indicators %.1f",
				e.Duration, e.Count, e.Response, e.Fatigue)},
		{"challenge", ch.Signal,
			fmt.Sprintf("challenges_issued %d, challenges_passed %d, commitment_accuracy %.2f", ch.Issued, ch.Passed,
				ch.Accuracy)},
	} {
		most := 0.0
		for _, p := range s.signal.Parts {
			most += p.Of
		}
		drawBar(w, s.name, s.signal.Score, most, s.signal.State)
		for _, p := range s.signal.Parts {
			drawBar(w, "  "+p.Name, p.Points, p.Of, p.State)
		}
		fmt.Fprintf(w, "  %s\n", s.fields)
	}
	fmt.Fprintf(w, "\ncoverage  %.0f %%: %d of %d calls, %d of %d bytes were observed\n", 100*c.Coverage.Share,
		c.Coverage.CallsObserved, c.Coverage.Calls, c.Coverage.BytesObserved, c.Coverage.Bytes)
	fmt.Fprintf(w, "baseline  %s\n", cli.OrDash(c.BaselineHash))
	fmt.Fprintf(w, "formulas  version %s, %s\n", c.Version, c.ScoringHash)
	_, err := io.WriteString(w, whatScoresAre)
	return err
}

const barWidth = 25

func drawBar(w io.Writer, name string, points, most float64, state string) {
	filled := 0
	if most > 0 {
		filled = int(barWidth * min(max(points/most, 0), 1))
	}
	fmt.Fprintf(w, "%-18s %s%s %5.1f of %-4.3g %s\n", name, strings.Repeat("#", filled),
		strings.Repeat(".", barWidth-filled), points, most, strings.ReplaceAll(state, "_", " "))
}

const whatScoresAre = `
A signal that was not measured has 0 points. A score is the likelihood that an agent worked by itself, as far as its
receipts show. It proves nothing.
nonHumanIdentityProven: false
`
