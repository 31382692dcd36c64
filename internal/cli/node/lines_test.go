package node

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
)

func TestTextsOfAgents(t *testing.T) {
	const forged = "x\nresolved    2026-01-01T00:00:00Z: by the arbiter\ttrue"
	raw := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		check.Must(t, err)
		return text
	}
	score := autonomy.Claims{Session: forged, Agent: forged, Owner: "o"}
	standing := accrual.Reputation{ScoreHistory: []accrual.ScoredSession{{SessionID: forged}}}
	standing.Agent, standing.AgentID = forged, forged
	for name, print := range map[string]func(c *cobra.Command) error{
		"a score": func(c *cobra.Command) error { return drawScore(c.OutOrStdout(), score) },
		"a reputation": func(c *cobra.Command) error {
			return drawReputation(c.OutOrStdout(), accrual.Claims{Reputation: standing})
		},
		"agents": func(c *cobra.Command) error { return drawAgents(c.OutOrStdout(), []accrual.Reputation{standing}) },
		"a dispute": func(c *cobra.Command) error {
			return printDispute(c, false, reputation.Dispute{
				DisputeID: "dsp_1", Status: dispute.StatusPending,
				Filing: raw(filed{forged, forged, forged, forged}),
				Opened: raw(dispute.Entry{Opened: &dispute.Opened{Challenger: "o:" + forged, Target: "o:" + forged}}),
			})
		},
		"a signal": func(c *cobra.Command) error {
			return printSignal(c, false, reputation.Signal{
				Signal: raw(dispute.Signal{SignalID: forged, AgentID: "o:" + forged, Statement: forged}),
				Entry:  raw(dispute.Entry{Signal: &dispute.Published{}}),
			})
		},
	} {
		var out strings.Builder
		c := &cobra.Command{}
		c.SetOut(&out)
		check.Must(t, print(c))
		if strings.Contains(out.String(), "\nresolved") || !strings.Contains(out.String(), "resolved") {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}

func TestNoRedirect(t *testing.T) {
	led := false
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		led = true
		_, _ = io.WriteString(w, "{}")
	}))
	defer other.Close()
	proxy := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	var answer any
	if err := (address{at: own}).call(t.Context(), http.MethodPost, "/v1/signals", map[string]string{}, &answer); err ==
		nil || led {
		t.Errorf("led: %t, %v", led, err)
	}
}

func TestReputation(t *testing.T) {
	c := accrual.Claims{
		Reputation: accrual.Reputation{
			Tier: accrual.TierBuilding, CurrentScore: 44.4, Lower: 40, Coverage: 0.5, Provisional: true, TotalInteractions: 12,
			FlaggedInteractions: 1, TotalSessions: 20,
			ChallengesReceived: 4, ChallengesWon: 1, ChallengesLost: 2, DisputesPending: 1, DisputesWon: 3, DisputesLost: 5,
			DisputePoints: -7, Disputed: true,
		},
		Verification: &accrual.Verified{At: 1_800_000_000, Expires: 1_800_086_400, Mode: accrual.ModeObserved,
			Degraded: true},
		Rating: &accrual.Rated{R: 34.5, Q: 0.25, Tier: "D"},
	}
	var out bytes.Buffer
	check.Must(t, drawReputation(&out, c))
	for _, want := range []string{
		"disputes      4 received: 1 won, 2 lost, 1 open, disputed\n",
		"raised        3 won, 5 lost; all disputes count for -7 points of the score\n",
		"verification  passed 2027-01-15T08:00:00Z in the mode observed, good until 2027-01-16T08:00:00Z, degraded\n",
		"rating        R 34.5 of 100, tier D; Q 0.25 of 3\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it shows\n%s, and not %q", out.String(), want)
		}
	}
	const want = "building: score 44.4 (at least 40.0), 11 interactions, 50 % observed, provisional, disputed, open " +
		"disputes 1, verification passed 2027-01-15T08:00:00Z in the mode observed, " +
		"good until 2027-01-16T08:00:00Z, degraded, R 34.5 of 100, tier D; Q 0.25 of 3, formulas "
	if got := ReputationFacts(c); !strings.HasPrefix(got, want) {
		t.Errorf("a record shows %s, want %s", got, want)
	}
	out.Reset()
	if err := drawReputation(&out, accrual.Claims{}); err != nil || !strings.Contains(out.String(), "lost, 0 open\n") ||
		!strings.Contains(out.String(), "owner         none: ") ||
		!strings.Contains(out.String(), "rating        not measured\n") {
		t.Errorf("nothing is known: %v\n%s", err, &out)
	}
	out.Reset()
	if err := drawAgents(&out, []accrual.Reputation{c.Reputation, {}}); err != nil ||
		!strings.Contains(out.String(), "  4 received, 2 lost, disputed\n") ||
		!strings.Contains(out.String(), "  0 received, 0 lost\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}
