package vectors_test

import (
	"fmt"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// otherHash is a hash that nothing in a chain has.
var otherHash = evidence.HashBytes([]byte("other"))

// claimRow changes claims of one artifact of a chain.
type claimRow struct {
	name, code, typ string
	change          map[string]any
}

// chainRows are the chains that claims give away, in the order in which they are compared.
func chainRows() []claimRow {
	var out []claimRow
	for _, group := range []struct {
		typ, artifact string
		rows          []claimRow
	}{
		{evidence.DeploymentCertificateKind.Typ, "the deployment certificate", deploymentRows},
		{evidence.ChallengeTokenKind.Typ, "the challenge token", challengeRows},
		{evidence.TriggerOriginProofKind.Typ, "the origin proof", originRows},
		{evidence.TriggerReceiptKind.Typ, "the trigger receipt", receiptRows},
		{evidence.PolicyDecisionKind.Typ, "the policy decision", decisionRows},
		{evidence.ActionGrantKind.Typ, "the action grant", grantRows},
		{evidence.RuntimeAttestationKind.Typ, "the runtime attestation", attestationRows},
		{evidence.SessionReceiptKind.Typ, "the session receipt", sessionRows},
	} {
		for _, r := range group.rows {
			r.name, r.typ = group.artifact+", "+r.name, group.typ
			out = append(out, r)
		}
	}
	return out
}

// says is a row with one claim changed.
func says(code, claim string, value any) claimRow {
	return claimRow{name: strings.ReplaceAll(fmt.Sprint(claim, " ", value), otherHash, "another"), code: code, change: map[string]any{claim: value}}
}

func only(values ...string) []string { return values }

var deploymentRows = []claimRow{
	says("deployment_id_not_allowed", "deploymentId", "other"), says("deployment_manifest_mismatch", "manifestHash", otherHash),
	says("deployment_controls_mismatch", "controlsHash", otherHash), says("issuer_not_allowed", "iss", "other"), says("audience_not_allowed", "aud", "other"),
	{name: "too old", code: "too_old", change: map[string]any{"iat": at - 24*3600 - 3}},
}

var challengeRows = []claimRow{
	{name: "bound to nothing", code: "challenge_binding_mismatch", change: map[string]any{"binding": nil, "bindingHash": nil}},
	says("issuer_not_allowed", "iss", "other"), says("audience_not_allowed", "aud", "other"), says("claims_malformed", "bindingHash", otherHash),
	{name: "too old", code: "too_old", change: map[string]any{"iat": at - 18}},
	{name: "expired", code: "expired", change: map[string]any{"iat": at - 10, "exp": at - 2}},
	{name: "not yet valid", code: "not_yet_valid", change: map[string]any{"iat": at + 3}},
}

var originRows = []claimRow{
	says("origin_binding_mismatch", "bindingHash", otherHash), says("receipt_event_mismatch", "eventId", "evt_2"), says("receipt_event_mismatch", "payloadHash", otherHash),
	says("receipt_source_mismatch", "kind", "scheduled"), says("receipt_source_mismatch", "source", "hooks"),
	says("trigger_method_not_allowed", "verificationMethod", "manual"), says("trigger_method_not_allowed", "verificationMethod", "self_reported"),
	says("trigger_method_not_allowed", "verificationMethod", "external_attestation"), says("decision_origin_mismatch", "verificationMethod", "queue_claim"),
	says("decision_origin_mismatch", "evidenceId", "delivery_2"), says("decision_origin_mismatch", "evidenceHash", otherHash),
}

var receiptRows = []claimRow{
	says("receipt_binding_mismatch", "bindingHash", otherHash), says("receipt_other_origin", "originProofHash", otherHash), says("receipt_event_mismatch", "eventId", "evt_2"),
	says("receipt_event_mismatch", "payloadHash", otherHash), says("receipt_source_mismatch", "kind", "scheduled"), says("receipt_source_mismatch", "source", "hooks"),
	says("trigger_human", "humanInitiated", true),
}

var decisionRows = []claimRow{
	says("decision_human", "humanInitiated", true), says("decision_not_allow", "decision", "deny"), says("decision_binding_mismatch", "bindingHash", otherHash),
	says("decision_content_mismatch", "contentHash", otherHash), says("decision_subject_mismatch", "subject", "agent:other"), says("decision_action_mismatch", "action", "delete_post"),
	says("decision_resource_mismatch", "resource", "POST /other"), says("decision_challenge_mismatch", "challengeId", "other"), says("decision_event_mismatch", "triggerEventId", "evt_2"),
	says("decision_event_mismatch", "triggerKind", "scheduled"), says("decision_event_mismatch", "triggerSource", "hooks"),
	says("decision_origin_mismatch", "originVerificationMethod", "queue_claim"), says("decision_origin_mismatch", "originEvidenceId", "delivery_2"),
	says("decision_origin_mismatch", "originEvidenceHash", otherHash), says("policy_hash_mismatch", "policyHash", otherHash), says("environment_mismatch", "environmentHash", otherHash),
	says("grant_runtime_mismatch", "runtimeId", "worker-2"), says("grant_other_decision", "jti", "another"), says("key_custody", "keyCustody", "hardware_backed"),
	says("ok", "reputationHash", otherHash), says("claims_malformed", "reputationHash", "x"), says("claims_not_canonical", "reputationHash", ""),
}

var grantRows = []claimRow{
	says("grant_other_decision", "policyDecisionIds", only("another")), says("grant_other_decision", "policyDecisionHashes", only(otherHash)),
	says("grant_action_mismatch", "actions", only("delete_post")), says("grant_resource_mismatch", "resources", only("POST /other")),
	says("grant_content_mismatch", "contentHashes", only(otherHash)), says("grant_binding_mismatch", "bindingHashes", only(otherHash)),
	says("grant_runtime_mismatch", "runtimeIds", only("worker-2")), says("grant_event_mismatch", "triggerEventIds", only("evt_2")), says("grant_event_mismatch", "triggerSources", only("hooks")),
	says("grant_origin_mismatch", "originVerificationMethods", only("queue_claim")), says("grant_origin_mismatch", "originEvidenceIds", only("delivery_2")),
	says("grant_origin_mismatch", "originEvidenceHashes", only(otherHash)), says("grant_subject_mismatch", "subject", "agent:other"),
	says("policy_hash_mismatch", "policyHash", otherHash), says("environment_mismatch", "environmentHash", otherHash), says("ok", "actions", only("create_post", "delete_post")),
}

var attestationRows = []claimRow{
	says("attestation_human", "humanInteractive", true), says("runtime_not_allowed", "runtimeId", "worker-2"), says("attestation_mode", "mode", "interactive"),
	says("attestation_challenge_mismatch", "challengeId", "other"), says("attestation_binding_mismatch", "bindingHash", otherHash), says("attestation_content_mismatch", "contentHash", otherHash),
	says("attestation_other_receipt", "triggerReceiptHash", otherHash), says("attestation_event_mismatch", "trigger", map[string]string{"id": "evt_2", "kind": "source_event", "source": "github"}),
	says("attestation_event_mismatch", "trigger", map[string]string{"id": "evt_1", "kind": "scheduled", "source": "github"}),
	says("attestation_trigger_kind", "trigger", map[string]string{"id": "evt_1", "kind": "autonomous_policy", "source": "github"}),
	says("attestation_trigger_kind", "trigger", map[string]string{"id": "evt_1", "kind": "human_request", "source": "github"}),
	says("attestation_event_mismatch", "trigger", map[string]string{"id": "evt_1", "kind": "source_event", "source": "hooks"}),
	says("policy_hash_mismatch", "policyHash", otherHash), says("environment_mismatch", "environmentHash", otherHash), says("key_custody", "keyExportable", true),
}

var sessionRows = []claimRow{
	says("session_human_prompt", "humanPromptPresent", true), says("session_human_operator", "humanOperatorPresent", true), says("session_user_shell", "userShellAccess", true),
	says("session_user_environment", "agentEnvironmentUserAccessible", true), says("session_input_kind", "inputKind", "human_prompt"), says("session_input_kind", "inputKind", "other"),
	says("runtime_not_allowed", "runtimeId", "worker-2"), says("session_challenge_mismatch", "challengeId", "other"), says("session_binding_mismatch", "bindingHash", otherHash),
	says("session_event_mismatch", "eventId", "evt_2"), says("session_event_mismatch", "inputKind", "scheduled"), says("session_event_mismatch", "inputSource", "hooks"),
	says("policy_hash_mismatch", "policyHash", otherHash), says("environment_mismatch", "environmentHash", otherHash), {name: "expired", code: "expired", change: map[string]any{"iat": at - 10, "exp": at - 2}},
}
