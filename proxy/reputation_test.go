package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/proxy/reputations"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/test/gatetest"
)

// appraisedRig has a control plane behind a server that decides by the example policy for reputations.
func appraisedRig(t testing.TB, k *gatetest.Kit, ask func() (string, error)) *postRig {
	t.Helper()
	return newWholeRig(t, k, k.Gate, func() {}, func(o *PipelineOptions) {
		cache := reputations.New(reputations.Options{
			Ask: func(context.Context) (string, error) { return ask() }, Now: k.Clock.Now, Log: zap.NewNop()})
		t.Cleanup(cache.Close)
		var engines decide.Engines
		must(t, engines.Set(k.Engine(t)))
		control := httptest.NewServer(decide.NewServer(&engines))
		t.Cleanup(control.Close)
		o.Control, o.Reputations = policy.NewClient(control.URL, control.Client()), cache
	})
}

// appraisedKit pins that policy.
func appraisedKit(t testing.TB) *gatetest.Kit {
	t.Helper()
	rules, err := decide.ParseRules(configs.PolicyReputation())
	must(t, err)
	// bodies are read by the real clock
	k := gatetest.NewAt(t, time.Now(), gatetest.Autonomous, func(m *policy.Manifest) {
		m.RuntimePolicy.RequiredPolicyHash, m.AgentSessionReceiptPolicy.RequiredPolicyHash = rules.Hash(), rules.Hash()
	})
	k.Rules = rules
	return k
}

// TestPostsByTier posts with the reputations of several tiers, and without one, through a real control plane and gate.
func TestPostsByTier(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 5000) + `"}`
	for name, c := range map[string]struct {
		sessions   int
		score      float64
		body, rule string // allows it
		code       string
	}{
		"an established agent":              {120, 60, long, "established", ""},
		"one on its way":                    {20, 40, long, "building", ""},
		"a newcomer, with a few words":      {3, 90, "{}", "newcomers", ""},
		"a newcomer, with many":             {3, 90, long, "", "policy_denied"},
		"an agent that nothing is known of": {0, 0, "{}", "newcomers", ""},
		"no token":                          {-1, 0, "{}", "", "reputation_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			k := appraisedKit(t)
			token := ""
			p := appraisedRig(t, k, func() (string, error) {
				if c.sessions < 0 {
					return "", errors.New("the node is away")
				}
				if token == "" {
					token = k.Reputation(t, k.Agent(t), c.sessions, c.score)
				}
				return token, nil
			})
			if c.code != "" {
				p.wantRefused(c.code, "POST", "/posts", c.body)
				return
			}
			p.want(http.StatusCreated, "POST", "/posts", c.body)
			rec, _ := p.record.last()
			if tokenIn(rec, "reputation") != token {
				t.Fatalf("the record lacks the reputation: %+v", rec.Artifacts)
			}
			d, err := evidence.UnverifiedClaims(evidence.PolicyDecisionKind(), tokenIn(rec, "policyDecision"))
			if err != nil || d.Rule != c.rule || d.ReputationHash != evidence.HashToken(token) {
				t.Errorf("%+v, %v", d, err)
			}
			if checks, whole := gate.VerifyRecord(t.Context(), k.Verifier, k.Strict, rec); !whole {
				t.Errorf("the record does not verify: %+v", checks)
			}
		})
	}
}

func TestReputationEnds(t *testing.T) {
	k := appraisedKit(t)
	asked, away := 0, false
	p := appraisedRig(t, k, func() (string, error) {
		asked++
		if away {
			return "", errors.New("the node is away")
		}
		return k.Reputation(t, k.Agent(t), 120, 60), nil
	})
	posts := func() {
		t.Helper()
		p.want(http.StatusCreated, "POST", "/posts", "{}")
	}
	for range 5 {
		posts()
	}
	if asked != 1 {
		t.Errorf("the node was asked %d times", asked)
	}
	away = true
	k.Clock.Advance(4 * time.Minute)
	posts()
	k.Clock.Advance(6 * time.Minute)
	p.wantRefused("reputation_missing", "POST", "/posts", "{}")
	away = false
	k.Clock.Advance(3 * time.Second)
	posts()
}

func TestOtherReputationInTheDecision(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.roles.decisionOf = func(d *evidence.PolicyDecision) { d.ReputationHash = evidence.HashBytes(nil) }
	p.wantRefused("artifacts_mismatch", "POST", "/posts", "{}")
}

func TestNoReputationIsAskedFor(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) {
		o.Reputations = asks{t}
	})
	p.want(http.StatusCreated, "POST", "/posts", "{}")
	if got := p.roles.decided.Reputation; got != "" {
		t.Errorf("the control plane got %q", got)
	}
}

type asks struct{ t testing.TB }

func (a asks) Forget() {}

func (a asks) Token(context.Context, time.Duration) string {
	a.t.Error("the reputation was asked for")
	return ""
}
