package admin_test

import (
	"testing"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
)

func TestAssess(t *testing.T) {
	gates := []string{
		"deployment certificate", "fresh work", "origin proof and trigger receipt", "policy decision", "action grant",
		"runtime attestation",
		"agent session receipt", "capability", "request proof",
	}
	checks := func(names ...string) (out []ledger.Check) {
		for _, n := range names {
			out = append(out, ledger.Check{Name: n, OK: true})
		}
		return out
	}
	for _, tt := range []struct {
		name   string
		post   ledger.Record
		claim  string
		issues int
	}{
		{"everything", ledger.Record{Flow: "post", Checks: checks(append(gates, proxy.CheckSingleUse)...)},
			policy.ClaimControlledPath, 0},
		{"before the keys are consumed", ledger.Record{Flow: "post", Checks: checks(gates...)}, policy.ClaimNone, 1},
		{"keys that were used",
			ledger.Record{Flow: "post", Checks: append(checks(gates...), ledger.Check{Name: proxy.CheckSingleUse})},
			policy.ClaimNone, 1},
		{"a check of the gate failed",
			ledger.Record{Flow: "post", Checks: append(checks(gates[:3]...), ledger.Check{Name: gates[3]})},
			policy.ClaimNone, 6},
		{"the sidecar's own checks alone",
			ledger.Record{Flow: "post",
				Checks: checks("received origin proof", "received trigger receipt", "received decision",
					"received grant")}, policy.ClaimNone, 9},
		{"no checks", ledger.Record{Flow: "post"}, policy.ClaimNone, 9},
		{"an API that judges itself",
			ledger.Record{Flow: "post", Checks: checks(gate.CheckByAPI, proxy.CheckSingleUse)}, "", 0},
		{"no post", ledger.Record{Flow: "egress"}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := admin.Assess(tt.post)
			if got == nil {
				if tt.claim != "" {
					t.Error("nothing is claimed")
				}
				return
			}
			if got.Claim != tt.claim || len(got.Issues) != tt.issues {
				t.Errorf("claims %s, missing %v", got.Claim, got.Issues)
			}
		})
	}
}
