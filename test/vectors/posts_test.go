package vectors_test

import (
	"slices"

	"github.com/actionproof/mediator/evidence"
)

func (d deployment) postsVectors() postsFile {
	capability := func(change map[string]any) string {
		return gateToken(evidence.CapabilityKind().Typ, with(d.capabilityClaims(), change))
	}
	proof := func(change map[string]any) string {
		return d.signed(evidence.PurposeRequestProof, evidence.RequestProofKind().Typ, d.proofClaims(),
			changes{evidence.RequestProofKind().Typ: change})
	}
	f := postsFile{gateFile: d.gateFile("Posts that are about to be made: see docs/vectors.md, The post."),
		Capability: capability(nil), RequestProof: proof(nil), AccessTokenHash: evidence.HashBytes([]byte(accessToken))}
	given := func(name, code string, change map[string]any) postVector {
		return postVector{Name: "the capability, " + name, Capability: capability(change), Verdict: code}
	}
	proved := func(claim, code string, value any) postVector {
		return postVector{Name: "the request proof, " + claim, RequestProof: proof(map[string]any{claim: value}),
			Verdict: code}
	}
	asked := func(name, code string, change func(*evidence.Binding)) postVector {
		b := f.Binding
		change(&b)
		return postVector{Name: "asked for " + name, Binding: &b, Verdict: code}
	}
	f.Vectors = []postVector{
		{Name: "valid", Verdict: "ok"},
		{Name: "15 s later", At: at + 15, Verdict: "ok"},
		{Name: "17 s later", At: at + 17, Verdict: "expired"},
		{Name: "with another access token", AccessTokenHash: evidence.HashBytes([]byte("Bearer stolen")),
			Verdict: "proof_access_token"},
		asked("other content", "artifacts_mismatch", func(b *evidence.Binding) { b.ContentHash = otherHash }),
		asked("another subject", "artifacts_mismatch", func(b *evidence.Binding) { b.Subject = "agent:other" }),
		asked("another action", "artifacts_mismatch", func(b *evidence.Binding) { b.Action = "delete_post" }),
		asked("another resource", "artifacts_mismatch", func(b *evidence.Binding) { b.Resource = "POST /posts/1" }),
		asked("no resource", "artifact_malformed", func(b *evidence.Binding) { b.Resource = "" }),
		given("of another gate", "not_allowed", map[string]any{"iss": "other"}),
		given("not consumed", "artifact_missing", map[string]any{"verificationConsumed": false}),
		given("without a runtime", "artifact_missing", map[string]any{"runtime": nil}),
		given("without a session", "artifact_missing", map[string]any{"session": nil}),
		given("without a decision", "artifact_missing", map[string]any{"decisionId": nil}),
		given("without a grant", "artifact_missing", map[string]any{"grantId": nil}),
		given("with a human in its session", "human_involved", map[string]any{"session": d.session("humanPromptPresent")}),
		given("with a shell in its session", "human_involved", map[string]any{"session": d.session("userShellAccess")}),
		given("of a runtime that another kind of trigger started", "not_allowed",
			map[string]any{
				"runtime": d.runtime("trigger",
					evidence.Trigger{ID: "evt_1", Kind: evidence.TriggerAutonomousPolicy, Source: "github"})}),
		given("of another runtime", "not_allowed", map[string]any{"runtime": d.runtime("runtimeId", "worker-2")}),
		given("of a runtime with another key", "not_allowed", map[string]any{"runtime": d.runtime("keyId", "other:v1")}),
		given("of a runtime with another policy", "not_allowed",
			map[string]any{"runtime": d.runtime("policyHash", otherHash)}),
		given("of a runtime that was attested long ago", "expired", map[string]any{"runtime": d.runtime("issuedAt", at-18)}),
		given("another one than the proof's", "artifacts_mismatch", map[string]any{"jti": "another"}),
		proved("capabilityId", "artifacts_mismatch", "another"), proved("accessTokenHash", "proof_access_token", otherHash),
		proved("bindingHash", "artifacts_mismatch", otherHash), proved("contentHash", "artifacts_mismatch", otherHash),
		proved("subject", "artifacts_mismatch", "agent:other"), proved("action", "artifacts_mismatch", "delete_post"),
		proved("resource", "artifacts_mismatch", "POST /other"),
		{Name: "the attestation in place of the request proof", RequestProof: d.envelope(nil).Attestation,
			Verdict: "artifact_malformed"},
		{Name: "the request proof in place of the capability", Capability: proof(nil), Verdict: "artifact_malformed"},
	}
	f.Vectors = slices.Concat(f.Vectors, d.manifestPosts(capability), d.revokedPosts())
	return f
}

func (d deployment) session(flag string) map[string]any {
	return d.summary("session", flag, true)
}

func (d deployment) runtime(member string, value any) map[string]any {
	return d.summary("runtime", member, value)
}
