package gate_test

import (
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func decided(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
	t.Helper()
	r := k.Chain(t)
	work, err := evidence.UnverifiedClaims(evidence.ChallengeTokenKind(), r.Envelope.ChallengeToken)
	check.Must(t, err)
	d, err := k.Engine(t).Decide(t.Context(), policy.Request{
		Binding: *work.Binding, ChallengeID: work.ID, RuntimeID: "worker-1", SessionID: "ses_1",
		EnvironmentHash: k.Strict.Runtime.EnvironmentHashes[0],
		ManifestHash:    k.Strict.ManifestHash,
		OriginProof:     r.Envelope.OriginProof, TriggerReceipt: r.Envelope.TriggerReceipt,
		Call: policy.Call{Method: "POST", Scheme: "https", Host: "api.example", Path: "/posts", Rule: "posts",
			ContentKind: "json", Size: int64(len(gatetest.Content))},
	})
	check.Must(t, err)
	r.Envelope.PolicyDecision, r.Envelope.Grant = d.PolicyDecision, d.Grant
	return r
}

func TestEngineSatisfiesGate(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	first, second := decided(t, k), decided(t, k)
	mixed := first
	mixed.Envelope.Grant = second.Envelope.Grant
	_, err := gatetest.Admit(t.Context(), k.Gate, mixed, used.Consume)
	gatetest.WantCode(t, err, "artifacts_mismatch")
	mixed = first
	mixed.Envelope.PolicyDecision, mixed.Envelope.Grant = second.Envelope.PolicyDecision, second.Envelope.Grant
	_, err = gatetest.Admit(t.Context(), k.Gate, mixed, used.Consume)
	gatetest.WantCode(t, err, "artifacts_mismatch")
	if used.Calls() != 0 {
		t.Error("a refused chain has consumed something")
	}
	for _, r := range []gate.AdmitRequest{first, second} {
		admits(t, k.Gate, r, used.Consume)
	}
}
