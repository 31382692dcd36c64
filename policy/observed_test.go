package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// ofSessions can only contradict a control.
var ofSessions = []string{look.Terminal, look.Stdin, look.Debugger, look.Stranger}

func everyLook() []look.Observation {
	looks := []look.Observation{
		look.New(look.Keys, look.Holds, "keys"), look.New(look.Gate, look.Holds, "gate"),
		look.New(look.Human, look.Holds, "human"),
	}
	for _, name := range ofSessions {
		looks = append(looks, look.New(name, look.Holds, name))
	}
	for _, purpose := range []string{"trigger_origin_proof", "trigger_receipt", "runtime_attestation", "agent_session",
		"request_proof", "interaction_receipt", "policy_decision", "action_grant"} {
		for _, name := range []string{look.Process, look.Files, look.Custody, look.Apart} {
			looks = append(looks, look.New(name, look.Holds, name+" of "+purpose).For(purpose))
		}
	}
	return looks
}

func count(controls []policy.ObservedControl, state string) (n int) {
	for _, c := range controls {
		if c.State == state {
			n++
		}
	}
	return n
}

// againstNothing counts, by observation, the controls that it can only contradict.
var againstNothing = map[string]int{look.Terminal: 2, look.Stdin: 1, look.Debugger: 1, look.Stranger: 2}

func TestObserve(t *testing.T) {
	m := gatetest.Example(t)
	all := m.Observe(everyLook())
	if len(all) != 44 || count(all, policy.ObservedTrue) != 29 || count(all, policy.DeclaredOnly) != 15 ||
		policy.Contradicted(all) != nil {
		t.Fatalf("%d controls, %d observed true, %d only declared", len(all), count(all, policy.ObservedTrue),
			count(all, policy.DeclaredOnly))
	}
	if none := m.Observe(nil); count(none, policy.DeclaredOnly) != 44 || policy.Contradicted(none) != nil {
		t.Error("without a look, something is observed")
	}
	for i, l := range everyLook() {
		t.Run(l.ID(), func(t *testing.T) {
			looks := everyLook()
			looks[i].Result = look.NotObserved
			unseen := m.Observe(looks)
			if count(unseen, policy.ObservedFalse) > 0 {
				t.Error("what could not be looked at counts against it")
			}
			if without := m.Observe(slices.Delete(everyLook(), i, i+1)); count(without, policy.ObservedTrue) !=
				count(unseen, policy.ObservedTrue) {
				t.Error("a look that was not made counts as one")
			}
			looks[i].Result = look.Contradicts
			// A second process that sees it hold does not outweigh the first.
			against := m.Observe(append(looks, l))
			lost := 29 - count(unseen, policy.ObservedTrue)
			if l.Purpose != "" {
				lost++ // refutes the key's certificate
			}
			lost += againstNothing[l.ID()]
			if lost == 0 {
				t.Error("no control rests on this look")
			}
			if count(against, policy.ObservedFalse) != lost {
				t.Errorf("%d observed false, not %d", count(against, policy.ObservedFalse), lost)
			}
			check.WantCode(t, policy.Contradicted(against), "deployment_contradicted",
				"an observation contradicts that")
		})
	}
}

func TestObserveALooseManifest(t *testing.T) {
	m := gatetest.Example(t)
	m.Controls.RuntimeSignerAccessibleToAgent = true
	state := func(r look.Result) string {
		looks := everyLook()
		for i := range looks {
			if looks[i].ID() == "files:runtime_attestation" {
				looks[i].Result = r
			}
		}
		controls := m.Observe(looks)
		return controls[slices.IndexFunc(controls, func(c policy.ObservedControl) bool {
			return c.Control == "runtimeSignerAccessibleToAgent"
		})].State
	}
	if got := state(look.Contradicts); got != policy.ObservedTrue {
		t.Errorf("an accessible key that is declared so is %s", got)
	}
	if got := state(look.Holds); got != policy.ObservedFalse {
		t.Errorf("a key out of reach that is declared accessible is %s", got)
	}
}

func TestControlsRestOn(t *testing.T) {
	m := gatetest.Example(t)
	want := map[string]string{ // in the manifest's order
		"gate": "proofRequiredForPost deploymentCertificateRequired agentSessionReceiptRequiredForPost " +
			"requestProofRequiredForPost signerCustodyCertificatesRequired " +
			"policyDecisionRequiredForPost grantRequiresPolicyDecision policyDecisionAcceptsHumanInitiatedRequests " +
			"consumeVerification consumeCapability atomicConsumptionWithPost",
		"human": "triggerAcceptsHumanInitiatedEvents originProofAcceptsManualEvents",
		"keys": "agentSessionCanBeMintedByRuntimeSigner requestProofCanBeMintedByRuntimeSigner " +
			"requestProofCanBeMintedByGrantSigner requestProofCanBeMintedByPolicyDecisionSigner " +
			"triggerCanBeMintedByRuntimeSigner originProofCanBeMintedByTriggerSigner " +
			"originProofCanBeMintedByRuntimeSigner policyDecisionCanBeMintedByRuntimeSigner " +
			"policyDecisionCanBeMintedByTriggerSigner policyDecisionCanBeMintedByGrantSigner",
		"apart:runtime_attestation": "agentSessionCanBeMintedByRuntimeSigner requestProofCanBeMintedByRuntimeSigner " +
			"triggerCanBeMintedByRuntimeSigner " +
			"originProofCanBeMintedByRuntimeSigner policyDecisionCanBeMintedByRuntimeSigner",
		"apart:action_grant":    "requestProofCanBeMintedByGrantSigner policyDecisionCanBeMintedByGrantSigner",
		"apart:policy_decision": "requestProofCanBeMintedByPolicyDecisionSigner",
		"apart:trigger_receipt": "originProofCanBeMintedByTriggerSigner policyDecisionCanBeMintedByTriggerSigner",
	}
	for purpose, control := range map[string]string{
		"agent_session": "agentSessionSigner", "request_proof": "requestProofSigner",
		"runtime_attestation": "runtimeSigner", "trigger_receipt": "triggerSigner",
		"trigger_origin_proof": "originProofSigner", "policy_decision": "policyDecisionSigner",
	} {
		for _, look := range []string{look.Process, look.Files, look.Custody} {
			want[look+":"+purpose] = control + "AccessibleToAgent"
		}
	}
	got := make(map[string]string)
	for i, l := range everyLook() {
		var lost []string
		for _, c := range m.Observe(slices.Delete(everyLook(), i, i+1)) {
			if c.State != policy.ObservedTrue &&
				slices.ContainsFunc(m.Observe(everyLook()), func(o policy.ObservedControl) bool {
					return o.Control == c.Control && o.State == policy.ObservedTrue
				}) {
				lost = append(lost, c.Control)
			}
		}
		if lost != nil {
			got[l.ID()] = strings.Join(lost, " ")
		}
	}
	check.WantEqual(t, got, want)
}

func TestWhatASessionContradicts(t *testing.T) {
	m := gatetest.Example(t)
	got := make(map[string]string)
	for _, name := range ofSessions {
		for _, c := range m.Observe([]look.Observation{look.New(name, look.Contradicts, "found")}) {
			if c.State == policy.ObservedFalse && c.Against == "found" {
				got[name] = strings.TrimSpace(got[name] + " " + c.Control)
			}
		}
	}
	check.WantEqual(t, got, map[string]string{
		look.Terminal: "agentSessionAllowsHumanOperators agentSessionAllowsUserShellAccess",
		look.Stdin:    "agentSessionAcceptsHumanPrompts",
		look.Debugger: "agentEnvironmentAccessibleToUsers",
		look.Stranger: "agentSessionAllowsUserShellAccess agentEnvironmentAccessibleToUsers",
	})
}

func TestSeenTwice(t *testing.T) {
	m := gatetest.Example(t)
	file := look.New(look.Files, look.Contradicts, "the key lies in a file").For("request_proof")
	other := look.New(look.Process, look.Contradicts, "the process can be looked into").For("policy_decision")
	for _, c := range m.Observe([]look.Observation{file, file, other, file}) {
		if c.Control == "signerCustodyCertificatesRequired" &&
			!slices.Equal(c.Evidence, []string{file.Seen, other.Seen}) {
			t.Errorf("the evidence is %q", c.Evidence)
		}
	}
}

func TestOutOfReachAndApart(t *testing.T) {
	const purpose = "request_proof"
	for _, row := range []struct {
		name  string
		ask   func(string, []look.Observation) (look.Result, string)
		looks []string
	}{
		{"out of reach", policy.OutOfReach, []string{look.Process, look.Files, look.Custody}},
		{"apart", policy.Apart, []string{look.Apart}},
	} {
		var all []look.Observation
		for _, name := range row.looks {
			all = append(all, look.New(name, look.Holds, name).For(purpose))
		}
		if got, against := row.ask(purpose, all); got != look.Holds || against != "" {
			t.Errorf("%s: %v, %q", row.name, got, against)
		}
		if got, _ := row.ask("action_grant", all); got != look.NotObserved {
			t.Errorf("%s: another role's key is %v", row.name, got)
		}
		for i, l := range all {
			if got, _ := row.ask(purpose, slices.Delete(slices.Clone(all), i, i+1)); got != look.NotObserved {
				t.Errorf("%s without the look at %s: %v", row.name, l.Seen, got)
			}
			worse := slices.Clone(all)
			worse[i].Result = look.Contradicts
			if got, against := row.ask(purpose, worse); got != look.Contradicts || against != l.Seen {
				t.Errorf("%s against the look at %s: %v, %q", row.name, l.Seen, got, against)
			}
		}
	}
}
