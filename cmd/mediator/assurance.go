package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
)

// shownPost is a record as operators see it, with what it amounts to.
type shownPost struct {
	ledger.Record
	// Assurance is absent where the mediator's own gate judged no chain: for a call that is no post, and where the API did.
	Assurance *policy.Assurance `json:"assurance,omitempty"`
}

// assess says what the verifications of a record amount to. Only the gate's own count, and of the sidecar's that the single use was
// made durable.
func assess(p ledger.Record) *policy.Assurance {
	if p.Flow != "post" || slices.ContainsFunc(p.Checks, func(k ledger.Check) bool { return k.Name == gate.CheckByAPI }) {
		return nil
	}
	held := gate.Held(p.Checks)
	held.SingleUseConsumed = slices.ContainsFunc(p.Checks, func(k ledger.Check) bool { return k.Name == proxy.CheckSingleUse && k.OK })
	a := policy.Assess(held)
	return &a
}

func printAssurance(w io.Writer, a policy.Assurance) {
	fmt.Fprintf(w, "  assurance    %s; nonHumanIdentityProven: %t\n", a.Claim, a.NonHumanIdentityProven())
	if len(a.Issues) > 0 {
		fmt.Fprintf(w, "  missing      %s\n", strings.Join(a.Issues, ", "))
	}
	for _, t := range a.Threats {
		switch {
		case t.Covered:
			fmt.Fprintf(w, "  covered      %s. Open: %s\n", t.Name, t.NotCovered)
		case t.By == "":
			fmt.Fprintf(w, "  not covered  %s. Open: %s\n", t.Name, t.NotCovered)
		default:
			fmt.Fprintf(w, "  not covered  %s. It would be: %s\n", t.Name, t.By)
		}
	}
}
