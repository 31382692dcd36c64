package gate_test

import (
	"testing"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestHeld(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	admitted, err := gatetest.Admit(t.Context(), k.Gate, k.Chain(t), used.Consume)
	check.Must(t, err)
	ask := authorizing(t, k)
	ask.Capability, ask.RequestProof = admitted.Capability, k.Proof(t, admitted.Capability, gatetest.Token)
	post, err := k.Gate.Authorize(t.Context(), ask)
	check.Must(t, err)
	checks := append(admitted.Checks, post.Checks...)
	h := gate.Held(checks)
	if a := policy.Assess(h); a.OK || len(a.Issues) != 1 || a.Issues[0] != "consumption_missing" {
		t.Errorf("before its keys are consumed the post amounts to %+v", a)
	}
	check.Must(t, used.Consume(t.Context(), post.Keys...))
	h.SingleUseConsumed = true
	if a := policy.Assess(h); !a.OK || a.Claim != policy.ClaimControlledPath {
		t.Errorf("the post amounts to %+v", a)
	}

	for i, c := range checks {
		short := append(append([]ledger.Check(nil), checks[:i]...), checks[i+1:]...)
		if c.Name != "capability" && len(policy.Assess(gate.Held(short)).Issues) != 2 {
			t.Errorf("without the check of the %s nothing more is missing", c.Name)
		}
		failed := append([]ledger.Check(nil), checks...)
		failed[i].OK = false
		if got, want := gate.Held(failed), gate.Held(checks[:i]); got != want {
			t.Errorf("the check of the %s failed, and yet the post amounts to %+v", c.Name, got)
		}
	}
	if gate.Held(nil) != (policy.Held{}) {
		t.Error("without checks something holds")
	}
}
