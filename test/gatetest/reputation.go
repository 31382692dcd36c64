package gatetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Formulas is the hash of the formulas by which the sessions of a kit's reputations are scored.
var Formulas = evidence.HashBytes([]byte("formulas"))

// Autonomous makes m a manifest whose policy asks for the reputation of agents. It is an edit for [New].
func Autonomous(m *policy.Manifest) {
	m.Version = "1.1"
	m.AutonomyPolicy = &policy.AutonomyPolicy{
		Allowed: policy.Allowed{AllowedIssuers: []string{"mediator-appraiser"},
			AllowedAudiences: []string{"posting-api"}, AllowedKeyIDs: []string{"appraiser-key"}},
		KeyCustody: policy.KeyCustody{
			AllowedKeyCustody:       []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked},
			RequireNonExportableKey: true},
		MaxReputationAgeMs: policy.MaxReputationAge.Milliseconds(), ScoringHash: Formulas,
	}
}

// Appraise gives a deployment that is [Autonomous] a certified key for reputations. Its verifier believes it from now
// on.
func (k *Kit) Appraise(t testing.TB) {
	t.Helper()
	k.addRole(t, evidence.PurposeAppraiser, k.Manifest.AutonomyPolicy.Allowed, accrual.Lifetime)
}

// Agent is the agent of a kit's chains.
func (k *Kit) Agent(t testing.TB) accrual.Agent {
	t.Helper()
	return accrual.Agent{Owner: k.Owner(t), Subject: Binding().Subject}
}

// Reputation signs the reputation of an agent with some sessions, each of an event of its own and with the same score.
func (k *Kit) Reputation(t testing.TB, agent accrual.Agent, sessions int, score float64) string {
	t.Helper()
	return k.ReputationVerified(t, agent, sessions, score, nil)
}

// Verified are the facts of a verification that was passed now.
func (k *Kit) Verified() *accrual.Verified {
	now := k.Clock.Now()
	return &accrual.Verified{Result: evidence.HashBytes([]byte("result")), At: now.Unix(),
		Expires: now.Add(24 * time.Hour).Unix(), Mode: accrual.ModeObserved}
}

// ReputationVerified signs the reputation of an agent that has passed a verification, if that is there.
func (k *Kit) ReputationVerified(t testing.TB, agent accrual.Agent, sessions int, score float64,
	v *accrual.Verified) string {
	t.Helper()
	k.Appraise(t)
	c := k.ReputationOf(t, agent, sessions, score)
	c.Verification = v
	token, _, err := Signer(t, k, accrual.Kind).Sign(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// ReputationOf returns the claims of [Kit.Reputation].
func (k *Kit) ReputationOf(t testing.TB, agent accrual.Agent, sessions int, score float64) accrual.Claims {
	t.Helper()
	a := must(accrual.NewAccount(agent, Formulas))(t)
	for i := range sessions {
		must(a.Add(accrual.Entry{At: Start.Unix(), Session: &accrual.Session{
			ID: fmt.Sprint("ses_", i), EventID: fmt.Sprint("evt_", i), Score: score, Coverage: 0.5, ScoringHash: Formulas,
			Interactions: 1, Hosts: []string{"api.openai.com:443"},
		}}))(t)
	}
	return accrual.ClaimsOf(a.Reputation(), nil)
}

// Lost returns a signed reputation of an agent that has lost a dispute.
func (k *Kit) Lost(t testing.TB, agent accrual.Agent) string {
	t.Helper()
	k.Appraise(t)
	c := k.ReputationOf(t, agent, 12, 50)
	Lose(&c)
	token, _, err := Signer(t, k, accrual.Kind).Sign(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Lose makes claims say that the agent has lost a dispute.
func Lose(c *accrual.Claims) {
	c.ChallengesReceived, c.ChallengesLost, c.Disputed = 1, 1, true
	c.CurrentScore, c.Lower, c.Tier = 0, 0, accrual.TierNew
	c.Log.Entries++
}
