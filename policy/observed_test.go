package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
)

// ofSessions are the looks at sessions. Each is enough against one control that nothing bears out.
var ofSessions = []string{observe.Terminal, observe.Stdin, observe.Debugger, observe.Stranger}

// everyLook is a look of each kind that holds.
func everyLook() []observe.Observation {
	looks := []observe.Observation{
		observe.New(observe.Keys, observe.Holds, "keys"), observe.New(observe.Gate, observe.Holds, "gate"), observe.New(observe.Human, observe.Holds, "human"),
	}
	for _, name := range ofSessions {
		looks = append(looks, observe.New(name, observe.Holds, name))
	}
	for _, purpose := range []string{"trigger_origin_proof", "trigger_receipt", "runtime_attestation", "agent_session", "request_proof", "interaction_receipt", "policy_decision", "action_grant"} {
		for _, name := range []string{observe.Process, observe.Files, observe.Custody, observe.Apart} {
			looks = append(looks, observe.New(name, observe.Holds, name+" of "+purpose).For(purpose))
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

func TestObserve(t *testing.T) {
	m, err := policy.ParseManifest(configs.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	all := m.Observe(everyLook())
	if len(all) != 44 || count(all, policy.ObservedTrue) != 30 || count(all, policy.DeclaredOnly) != 14 || policy.Contradicted(all) != nil {
		t.Fatalf("%d controls, %d observed true, %d only declared", len(all), count(all, policy.ObservedTrue), count(all, policy.DeclaredOnly))
	}
	if none := m.Observe(nil); count(none, policy.DeclaredOnly) != 44 || policy.Contradicted(none) != nil {
		t.Error("without a look, something is observed")
	}
	for i, l := range everyLook() {
		t.Run(l.ID(), func(t *testing.T) {
			looks := everyLook()
			looks[i].Result = observe.NotObserved
			unseen := m.Observe(looks)
			if count(unseen, policy.ObservedFalse) > 0 {
				t.Error("what could not be looked at counts against it")
			}
			if without := m.Observe(slices.Delete(everyLook(), i, i+1)); count(without, policy.ObservedTrue) != count(unseen, policy.ObservedTrue) {
				t.Error("a look that was not made counts as one")
			}
			looks[i].Result = observe.Contradicts
			// A second process that sees it hold does not outweigh the one that sees it does not.
			against := m.Observe(append(looks, l))
			lost := 30 - count(unseen, policy.ObservedTrue)
			if l.Purpose != "" {
				lost++ // the key's custody certificate is refuted, whatever else rests on the look
			}
			if slices.Contains(ofSessions, l.ID()) {
				lost++ // of what nothing bears out
			}
			if lost == 0 {
				t.Error("no control rests on this look")
			}
			if count(against, policy.ObservedFalse) != lost {
				t.Errorf("%d observed false, not %d", count(against, policy.ObservedFalse), lost)
			}
			check.WantCode(t, policy.Contradicted(against), "deployment_contradicted", "what was seen contradicts it")
		})
	}
}

// TestObserveALooseManifest: the looks show what is so, whatever the manifest says.
func TestObserveALooseManifest(t *testing.T) {
	m, err := policy.ParseManifest(configs.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	m.Controls.RuntimeSignerAccessibleToAgent = true
	state := func(r observe.Result) string {
		looks := everyLook()
		for i := range looks {
			if looks[i].ID() == "files:runtime_attestation" {
				looks[i].Result = r
			}
		}
		controls := m.Observe(looks)
		return controls[slices.IndexFunc(controls, func(c policy.ObservedControl) bool { return c.Control == "runtimeSignerAccessibleToAgent" })].State
	}
	if got := state(observe.Contradicts); got != policy.ObservedTrue {
		t.Errorf("an accessible key that is declared so is %s", got)
	}
	if got := state(observe.Holds); got != policy.ObservedFalse {
		t.Errorf("a key out of reach that is declared accessible is %s", got)
	}
}

// TestControlsRestOn takes each look away and names the controls that are then no longer borne out.
func TestControlsRestOn(t *testing.T) {
	m, err := policy.ParseManifest(configs.Manifest())
	check.Must(t, err)
	want := map[string]string{ // each in the manifest's order
		"gate": "proofRequiredForPost deploymentCertificateRequired agentSessionReceiptRequiredForPost requestProofRequiredForPost signerCustodyCertificatesRequired " +
			"policyDecisionRequiredForPost grantRequiresPolicyDecision policyDecisionAcceptsHumanInitiatedRequests consumeVerification consumeCapability atomicConsumptionWithPost",
		"human": "triggerAcceptsHumanInitiatedEvents originProofAcceptsManualEvents",
		"keys": "agentSessionCanBeMintedByRuntimeSigner requestProofCanBeMintedByRuntimeSigner requestProofCanBeMintedByGrantSigner requestProofCanBeMintedByPolicyDecisionSigner " +
			"triggerCanBeMintedByRuntimeSigner originProofCanBeMintedByTriggerSigner originProofCanBeMintedByRuntimeSigner policyDecisionCanBeMintedByRuntimeSigner " +
			"policyDecisionCanBeMintedByTriggerSigner policyDecisionCanBeMintedByGrantSigner",
		"apart:runtime_attestation": "agentSessionCanBeMintedByRuntimeSigner requestProofCanBeMintedByRuntimeSigner triggerCanBeMintedByRuntimeSigner " +
			"originProofCanBeMintedByRuntimeSigner policyDecisionCanBeMintedByRuntimeSigner",
		"stranger":              "agentSessionAllowsUserShellAccess",
		"apart:action_grant":    "requestProofCanBeMintedByGrantSigner policyDecisionCanBeMintedByGrantSigner",
		"apart:policy_decision": "requestProofCanBeMintedByPolicyDecisionSigner",
		"apart:trigger_receipt": "originProofCanBeMintedByTriggerSigner policyDecisionCanBeMintedByTriggerSigner",
	}
	for purpose, control := range map[string]string{
		"agent_session": "agentSessionSigner", "request_proof": "requestProofSigner", "runtime_attestation": "runtimeSigner", "trigger_receipt": "triggerSigner",
		"trigger_origin_proof": "originProofSigner", "policy_decision": "policyDecisionSigner",
	} {
		for _, look := range []string{observe.Process, observe.Files, observe.Custody} {
			want[look+":"+purpose] = control + "AccessibleToAgent"
		}
	}
	got := make(map[string]string)
	for i, l := range everyLook() {
		var lost []string
		for _, c := range m.Observe(slices.Delete(everyLook(), i, i+1)) {
			if c.State != policy.ObservedTrue && slices.ContainsFunc(m.Observe(everyLook()), func(o policy.ObservedControl) bool { return o.Control == c.Control && o.State == policy.ObservedTrue }) {
				lost = append(lost, c.Control)
			}
		}
		if lost != nil {
			got[l.ID()] = strings.Join(lost, " ")
		}
	}
	check.WantEqual(t, got, want)
}

// TestWhatASessionContradicts names the controls that one finding in one session is enough against.
func TestWhatASessionContradicts(t *testing.T) {
	m, err := policy.ParseManifest(configs.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, name := range ofSessions {
		for _, c := range m.Observe([]observe.Observation{observe.New(name, observe.Contradicts, "found")}) {
			if c.State == policy.ObservedFalse && c.Against == "found" {
				got[name] = strings.TrimSpace(got[name] + " " + c.Control)
			}
		}
	}
	check.WantEqual(t, got, map[string]string{
		observe.Terminal: "agentSessionAllowsHumanOperators agentSessionAllowsUserShellAccess",
		observe.Stdin:    "agentSessionAcceptsHumanPrompts",
		observe.Debugger: "agentEnvironmentAccessibleToUsers",
		observe.Stranger: "agentSessionAllowsUserShellAccess agentEnvironmentAccessibleToUsers",
	})
}

// TestSeenTwice has two processes see the same of a key, and of another one: each is said once.
func TestSeenTwice(t *testing.T) {
	m, err := policy.ParseManifest(configs.Manifest())
	check.Must(t, err)
	file := observe.New(observe.Files, observe.Contradicts, "the key lies in a file").For("request_proof")
	other := observe.New(observe.Process, observe.Contradicts, "the process can be looked into").For("policy_decision")
	for _, c := range m.Observe([]observe.Observation{file, file, other, file}) {
		if c.Control == "signerCustodyCertificatesRequired" && !slices.Equal(c.Evidence, []string{file.Seen, other.Seen}) {
			t.Errorf("the evidence is %q", c.Evidence)
		}
	}
}

// TestOutOfReachAndApart asks about the key of one role.
func TestOutOfReachAndApart(t *testing.T) {
	const purpose = "request_proof"
	for _, row := range []struct {
		name  string
		ask   func(string, []observe.Observation) (observe.Result, string)
		looks []string
	}{
		{"out of reach", policy.OutOfReach, []string{observe.Process, observe.Files, observe.Custody}}, {"apart", policy.Apart, []string{observe.Apart}},
	} {
		var all []observe.Observation
		for _, name := range row.looks {
			all = append(all, observe.New(name, observe.Holds, name).For(purpose))
		}
		if got, against := row.ask(purpose, all); got != observe.Holds || against != "" {
			t.Errorf("%s: %v, %q", row.name, got, against)
		}
		if got, _ := row.ask("action_grant", all); got != observe.NotObserved {
			t.Errorf("%s: another role's key is %v", row.name, got)
		}
		for i, l := range all {
			if got, _ := row.ask(purpose, slices.Delete(slices.Clone(all), i, i+1)); got != observe.NotObserved {
				t.Errorf("%s without the look at %s: %v", row.name, l.Seen, got)
			}
			worse := slices.Clone(all)
			worse[i].Result = observe.Contradicts
			if got, against := row.ask(purpose, worse); got != observe.Contradicts || against != l.Seen {
				t.Errorf("%s against the look at %s: %v, %q", row.name, l.Seen, got, against)
			}
		}
	}
}
