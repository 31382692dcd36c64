package vectors_test

import (
	"fmt"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

var otherHash = evidence.HashBytes([]byte("other"))

type claimRow struct {
	name, code, typ string
	change          map[string]any
}

// chainRows are in the order of comparison.
func chainRows() []claimRow {
	var out []claimRow
	for _, group := range []struct {
		typ, artifact string
		rows          []claimRow
	}{
		{evidence.DeploymentCertificateKind().Typ, "the deployment certificate", deploymentRows},
		{evidence.ChallengeTokenKind().Typ, "the challenge token", challengeRows},
		{evidence.TriggerOriginProofKind().Typ, "the origin proof", originRows},
		{evidence.TriggerReceiptKind().Typ, "the trigger receipt", receiptRows},
		{evidence.PolicyDecisionKind().Typ, "the policy decision", decisionRows},
		{evidence.ActionGrantKind().Typ, "the action grant", grantRows},
		{evidence.RuntimeAttestationKind().Typ, "the runtime attestation", attestationRows},
		{evidence.SessionReceiptKind().Typ, "the session receipt", sessionRows},
	} {
		for _, r := range group.rows {
			r.name, r.typ = group.artifact+", "+r.name, group.typ
			out = append(out, r)
		}
	}
	return out
}

func says(code, claim string, value any) claimRow {
	return claimRow{name: strings.ReplaceAll(fmt.Sprint(claim, " ", value), otherHash, "another"), code: code,
		change: map[string]any{claim: value}}
}

func only(values ...string) []string { return values }

var deploymentRows = []claimRow{
	says("deployment_mismatch", "deploymentId", "other"), says("deployment_mismatch", "manifestHash", otherHash),
	says("deployment_mismatch", "controlsHash", otherHash), says("not_allowed", "iss", "other"),
	says("not_allowed", "aud", "other"),
	{name: "too old", code: "expired", change: map[string]any{"iat": at - 24*3600 - 3}},
}

var challengeRows = []claimRow{
	{name: "bound to nothing", code: "challenge_refused", change: map[string]any{"binding": nil, "bindingHash": nil}},
	says("not_allowed", "iss", "other"), says("not_allowed", "aud", "other"),
	says("artifact_malformed", "bindingHash", otherHash),
	{name: "too old", code: "expired", change: map[string]any{"iat": at - 18}},
	{name: "expired", code: "expired", change: map[string]any{"iat": at - 10, "exp": at - 2}},
	{name: "not yet valid", code: "clock_skew", change: map[string]any{"iat": at + 3}},
}

var originRows = []claimRow{
	says("artifacts_mismatch", "bindingHash", otherHash), says("artifacts_mismatch", "eventId", "evt_2"),
	says("artifacts_mismatch", "payloadHash", otherHash),
	says("artifacts_mismatch", "kind", "scheduled"), says("artifacts_mismatch", "source", "hooks"),
	says("not_allowed", "verificationMethod", "manual"), says("not_allowed", "verificationMethod", "self_reported"),
	says("not_allowed", "verificationMethod", "external_attestation"),
	says("artifacts_mismatch", "verificationMethod", "queue_claim"),
	says("artifacts_mismatch", "evidenceId", "delivery_2"), says("artifacts_mismatch", "evidenceHash", otherHash),
}

var receiptRows = []claimRow{
	says("artifacts_mismatch", "bindingHash", otherHash), says("artifacts_mismatch", "originProofHash", otherHash),
	says("artifacts_mismatch", "eventId", "evt_2"),
	says("artifacts_mismatch", "payloadHash", otherHash), says("artifacts_mismatch", "kind", "scheduled"),
	says("artifacts_mismatch", "source", "hooks"),
	says("human_involved", "humanInitiated", true),
}

var decisionRows = []claimRow{
	says("human_involved", "humanInitiated", true), says("policy_denied", "decision", "deny"),
	says("artifacts_mismatch", "bindingHash", otherHash),
	says("artifacts_mismatch", "contentHash", otherHash), says("artifacts_mismatch", "subject", "agent:other"),
	says("artifacts_mismatch", "action", "delete_post"),
	says("artifacts_mismatch", "resource", "POST /other"), says("artifacts_mismatch", "challengeId", "other"),
	says("artifacts_mismatch", "triggerEventId", "evt_2"),
	says("artifacts_mismatch", "triggerKind", "scheduled"), says("artifacts_mismatch", "triggerSource", "hooks"),
	says("artifacts_mismatch", "originVerificationMethod", "queue_claim"),
	says("artifacts_mismatch", "originEvidenceId", "delivery_2"),
	says("artifacts_mismatch", "originEvidenceHash", otherHash), says("pin_mismatch", "policyHash", otherHash),
	says("pin_mismatch", "environmentHash", otherHash),
	says("artifacts_mismatch", "runtimeId", "worker-2"), says("artifacts_mismatch", "jti", "another"),
	says("key_custody", "keyCustody", "hardware_backed"),
	says("ok", "reputationHash", otherHash), says("artifact_malformed", "reputationHash", "x"),
	says("artifact_malformed", "reputationHash", ""),
}

var grantRows = []claimRow{
	says("artifacts_mismatch", "policyDecisionIds", only("another")),
	says("artifacts_mismatch", "policyDecisionHashes", only(otherHash)),
	says("artifacts_mismatch", "actions", only("delete_post")),
	says("artifacts_mismatch", "resources", only("POST /other")),
	says("artifacts_mismatch", "contentHashes", only(otherHash)),
	says("artifacts_mismatch", "bindingHashes", only(otherHash)),
	says("artifacts_mismatch", "runtimeIds", only("worker-2")),
	says("artifacts_mismatch", "triggerEventIds", only("evt_2")),
	says("artifacts_mismatch", "triggerSources", only("hooks")),
	says("artifacts_mismatch", "originVerificationMethods", only("queue_claim")),
	says("artifacts_mismatch", "originEvidenceIds", only("delivery_2")),
	says("artifacts_mismatch", "originEvidenceHashes", only(otherHash)),
	says("artifacts_mismatch", "subject", "agent:other"),
	says("pin_mismatch", "policyHash", otherHash), says("pin_mismatch", "environmentHash", otherHash),
	says("ok", "actions", only("create_post", "delete_post")),
}

var attestationRows = []claimRow{
	says("human_involved", "humanInteractive", true), says("not_allowed", "runtimeId", "worker-2"),
	says("human_involved", "mode", "interactive"),
	says("artifacts_mismatch", "challengeId", "other"), says("artifacts_mismatch", "bindingHash", otherHash),
	says("artifacts_mismatch", "contentHash", otherHash),
	says("artifacts_mismatch", "triggerReceiptHash", otherHash),
	says("artifacts_mismatch", "trigger", map[string]string{"id": "evt_2", "kind": "source_event", "source": "github"}),
	says("artifacts_mismatch", "trigger", map[string]string{"id": "evt_1", "kind": "scheduled", "source": "github"}),
	says("not_allowed", "trigger", map[string]string{"id": "evt_1", "kind": "autonomous_policy", "source": "github"}),
	says("not_allowed", "trigger", map[string]string{"id": "evt_1", "kind": "human_request", "source": "github"}),
	says("artifacts_mismatch", "trigger", map[string]string{"id": "evt_1", "kind": "source_event", "source": "hooks"}),
	says("pin_mismatch", "policyHash", otherHash), says("pin_mismatch", "environmentHash", otherHash),
	says("key_custody", "keyExportable", true),
}

var sessionRows = []claimRow{
	says("human_involved", "humanPromptPresent", true), says("human_involved", "humanOperatorPresent", true),
	says("human_involved", "userShellAccess", true),
	says("human_involved", "agentEnvironmentUserAccessible", true), says("not_allowed", "inputKind", "human_prompt"),
	says("not_allowed", "inputKind", "other"),
	says("not_allowed", "runtimeId", "worker-2"), says("artifacts_mismatch", "challengeId", "other"),
	says("artifacts_mismatch", "bindingHash", otherHash),
	says("artifacts_mismatch", "eventId", "evt_2"), says("artifacts_mismatch", "inputKind", "scheduled"),
	says("artifacts_mismatch", "inputSource", "hooks"),
	says("pin_mismatch", "policyHash", otherHash), says("pin_mismatch", "environmentHash", otherHash),
	{name: "expired", code: "expired", change: map[string]any{"iat": at - 10, "exp": at - 2}},
}
