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

func mismatch(claim string, value any) claimRow { return says("artifacts_mismatch", claim, value) }

func only(values ...string) []string { return values }

func startedBy(id, kind, source string) map[string]string {
	return map[string]string{"id": id, "kind": kind, "source": source}
}

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
	mismatch("bindingHash", otherHash), mismatch("eventId", "evt_2"),
	mismatch("payloadHash", otherHash),
	mismatch("kind", "scheduled"), mismatch("source", "hooks"),
	says("not_allowed", "verificationMethod", "manual"), says("not_allowed", "verificationMethod", "self_reported"),
	says("not_allowed", "verificationMethod", "external_attestation"),
	mismatch("verificationMethod", "queue_claim"),
	mismatch("evidenceId", "delivery_2"), mismatch("evidenceHash", otherHash),
}

var receiptRows = []claimRow{
	mismatch("bindingHash", otherHash), mismatch("originProofHash", otherHash),
	mismatch("eventId", "evt_2"),
	mismatch("payloadHash", otherHash), mismatch("kind", "scheduled"),
	mismatch("source", "hooks"),
	says("human_involved", "humanInitiated", true),
}

var decisionRows = []claimRow{
	says("human_involved", "humanInitiated", true), says("policy_denied", "decision", "deny"),
	mismatch("bindingHash", otherHash),
	mismatch("contentHash", otherHash), mismatch("subject", "agent:other"),
	mismatch("action", "delete_post"),
	mismatch("resource", "POST /other"), mismatch("challengeId", "other"),
	mismatch("triggerEventId", "evt_2"),
	mismatch("triggerKind", "scheduled"), mismatch("triggerSource", "hooks"),
	mismatch("originVerificationMethod", "queue_claim"),
	mismatch("originEvidenceId", "delivery_2"),
	mismatch("originEvidenceHash", otherHash), says("pin_mismatch", "policyHash", otherHash),
	says("pin_mismatch", "environmentHash", otherHash),
	mismatch("runtimeId", "worker-2"), mismatch("jti", "another"),
	says("key_custody", "keyCustody", "hardware_backed"),
	says("ok", "reputationHash", otherHash), says("artifact_malformed", "reputationHash", "x"),
	says("artifact_malformed", "reputationHash", ""),
}

var grantRows = []claimRow{
	mismatch("policyDecisionIds", only("another")),
	mismatch("policyDecisionHashes", only(otherHash)),
	mismatch("actions", only("delete_post")),
	mismatch("resources", only("POST /other")),
	mismatch("contentHashes", only(otherHash)),
	mismatch("bindingHashes", only(otherHash)),
	mismatch("runtimeIds", only("worker-2")),
	mismatch("triggerEventIds", only("evt_2")),
	mismatch("triggerSources", only("hooks")),
	mismatch("originVerificationMethods", only("queue_claim")),
	mismatch("originEvidenceIds", only("delivery_2")),
	mismatch("originEvidenceHashes", only(otherHash)),
	mismatch("subject", "agent:other"),
	says("pin_mismatch", "policyHash", otherHash), says("pin_mismatch", "environmentHash", otherHash),
	says("ok", "actions", only("create_post", "delete_post")),
}

var attestationRows = []claimRow{
	says("human_involved", "humanInteractive", true), says("not_allowed", "runtimeId", "worker-2"),
	says("human_involved", "mode", "interactive"),
	mismatch("challengeId", "other"), mismatch("bindingHash", otherHash),
	mismatch("contentHash", otherHash),
	mismatch("triggerReceiptHash", otherHash),
	mismatch("trigger", startedBy("evt_2", "source_event", "github")),
	mismatch("trigger", startedBy("evt_1", "scheduled", "github")),
	says("not_allowed", "trigger", startedBy("evt_1", "autonomous_policy", "github")),
	says("not_allowed", "trigger", startedBy("evt_1", "human_request", "github")),
	mismatch("trigger", startedBy("evt_1", "source_event", "hooks")),
	says("pin_mismatch", "policyHash", otherHash), says("pin_mismatch", "environmentHash", otherHash),
	says("key_custody", "keyExportable", true),
}

var sessionRows = []claimRow{
	says("human_involved", "humanPromptPresent", true), says("human_involved", "humanOperatorPresent", true),
	says("human_involved", "userShellAccess", true),
	says("human_involved", "agentEnvironmentUserAccessible", true), says("not_allowed", "inputKind", "human_prompt"),
	says("not_allowed", "inputKind", "other"),
	says("not_allowed", "runtimeId", "worker-2"), mismatch("challengeId", "other"),
	mismatch("bindingHash", otherHash),
	mismatch("eventId", "evt_2"), mismatch("inputKind", "scheduled"),
	mismatch("inputSource", "hooks"),
	says("pin_mismatch", "policyHash", otherHash), says("pin_mismatch", "environmentHash", otherHash),
	{name: "expired", code: "expired", change: map[string]any{"iat": at - 10, "exp": at - 2}},
}
