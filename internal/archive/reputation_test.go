package archive_test

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/gatetest"
)

// A day later the reputation token has ended, and its key was replaced.
func TestRecordsWithReputation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, gatetest.Autonomous)
	w.Clock.Advance(time.Minute)
	w.Appraise(t)
	w.publish(evidence.PurposeAppraiser)
	w.certify()
	w.Clock.Advance(3 * time.Second)
	agent := accrual.Agent{Owner: interaction.Owner(w.read().Roots[0].Public), Subject: gatetest.Binding().Subject}
	token, other := w.Reputation(t, agent, 30, 80), w.Reputation(t, agent, 40, 80)
	post := w.PostOf(t, gatetest.Claim(evidence.PurposePolicyDecision, "reputationHash", evidence.HashToken(token)))
	with := func(token string) ledger.Record {
		r := post
		r.Artifacts = append(r.Artifacts[:len(r.Artifacts):len(r.Artifacts)],
			ledger.Artifact{Name: "reputation", Token: token})
		return r
	}
	w.Clock.Advance(12 * time.Hour)
	w.Rotate(t, evidence.PurposeAppraiser)
	w.publish(evidence.PurposeAppraiser)
	w.certify()
	w.Clock.Advance(12 * time.Hour)
	if code := w.verify(w.read(), with(token)); code != "" {
		t.Errorf("the record is refused: %s", code)
	}
	if code := w.verify(w.read(), with(other)); code != "artifacts_mismatch" {
		t.Errorf("with another token: %q", code)
	}
	if v, err := w.read().Verify(t.Context(), post, nil, w.Clock.Now()); err != nil || v.Whole {
		t.Errorf("without the token: %+v, %v", v, err)
	}
	w.revoke(evidence.RevokedKey, evidence.KeyIDOf(token), time.Hour)
	if code := w.verify(w.read(), with(token)); code != "revoked" {
		t.Errorf("once its key is revoked: %q", code)
	}
}
