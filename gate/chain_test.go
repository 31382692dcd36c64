package gate_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type row struct {
	name, code string
	make       func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest
}

// before those that rest on it
func planned(name, code string, p gatetest.Plan) row {
	return row{name, code, func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest { return k.Build(t, p) }}
}

func altered(name, code string, change func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest)) row {
	return row{name, code, func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
		r := k.Chain(t)
		change(t, k, &r)
		return r
	}}
}

func edited(name, code string, change func(r *gate.AdmitRequest)) row {
	return altered(name, code, func(_ *testing.T, _ *gatetest.Kit, r *gate.AdmitRequest) { change(r) })
}

func resigned[C any](name, code string, kind evidence.Kind[C], at func(*evidence.Envelope) *string, pairs ...any) row {
	return altered(name, code, func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
		token := at(&r.Envelope)
		*token = gatetest.Resign(t, k, kind, *token, pairs...)
	})
}

func forged(name, code string, at func(*evidence.Envelope) *string,
	change func(t *testing.T, k *gatetest.Kit, token string) string) row {
	return altered(name, code, func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
		token := at(&r.Envelope)
		*token = change(t, k, *token)
	})
}

func exchanged(name string, at func(*evidence.Envelope) *string) row {
	return forged(name, "artifacts_mismatch", at, func(t *testing.T, k *gatetest.Kit, _ string) string {
		e := k.Chain(t).Envelope
		return *at(&e)
	})
}

func recertified(name, code string, pairs ...any) row {
	return altered(name, code, func(t *testing.T, k *gatetest.Kit, _ *gate.AdmitRequest) {
		const purpose = evidence.PurposeRuntimeAttestation
		c := gatetest.Resign(t, k, evidence.SignerCertificateKind(), k.Certificates[purpose], pairs...)
		k.Verifier.SetTrust(k.TrustWithout(t, purpose, c))
	})
}

func attestation(e *evidence.Envelope) *string { return &e.Attestation }
func grant(e *evidence.Envelope) *string       { return &e.Grant }
func decision(e *evidence.Envelope) *string    { return &e.PolicyDecision }
func origin(e *evidence.Envelope) *string      { return &e.OriginProof }
func receipt(e *evidence.Envelope) *string     { return &e.TriggerReceipt }
func session(e *evidence.Envelope) *string     { return &e.SessionReceipt }
func deployment(e *evidence.Envelope) *string  { return &e.DeploymentCertificate }
func work(e *evidence.Envelope) *string        { return &e.ChallengeToken }

var other = evidence.HashBytes([]byte("other"))

func twoRuntimes(m *policy.Manifest) {
	m.RuntimePolicy.AllowedRuntimeIDs = []string{"worker-1", "worker-2"}
	m.AgentSessionReceiptPolicy.AllowedRuntimeIDs = []string{"worker-1", "worker-2"}
}

type claims = map[string]any

// at is a time of the kit's clock as a claim.
func at(d time.Duration) int64 { return gatetest.Start.Add(d).Unix() }

var ended = []any{"iat", at(-10 * time.Second), "exp", at(-8 * time.Second)}

func minted[C any](t *testing.T, secret evidence.Secret, kind evidence.Kind[C], token string, pairs ...any) string {
	t.Helper()
	c, err := evidence.UnverifiedClaims(kind, token)
	check.Must(t, err)
	gatetest.Set(t, &c, pairs...)
	token, err = evidence.SignMAC(secret, kind, c)
	check.Must(t, err)
	return token
}

func workRows() []row {
	mac := func(name, code string, pairs ...any) row {
		return forged(name, code, work, func(t *testing.T, k *gatetest.Kit, token string) string {
			return minted(t, k.Secret, evidence.ChallengeTokenKind(), token, pairs...)
		})
	}
	asked := func(name, code string, pairs ...any) row {
		return altered(name, code, func(t *testing.T, _ *gatetest.Kit, r *gate.AdmitRequest) {
			gatetest.Set(t, &r.Binding, pairs...)
		})
	}
	answers := func(name string, change func(map[string]string)) row {
		return edited(name, "challenge_refused", func(r *gate.AdmitRequest) { change(r.Envelope.Response.Answers) })
	}
	return []row{
		asked("asked for another subject", "challenge_refused", "subject", "agent:other"),
		asked("asked for another action", "challenge_refused", "action", "delete_post"),
		asked("asked for another resource", "challenge_refused", "resource", "POST /posts?draft=1"),
		asked("asked for other content", "challenge_refused", "contentHash", other),
		asked("asked without a subject", "artifact_malformed", "subject", ""),
		asked("asked without an action", "artifact_malformed", "action", ""),
		asked("asked without a resource", "artifact_malformed", "resource", ""),
		asked("asked with an uppercase hash", "artifact_malformed", "contentHash",
			strings.ToUpper(gatetest.Binding().ContentHash)),
		asked("asked for nothing", "artifact_malformed", "subject", "", "action", "", "resource", "", "contentHash", ""),
		edited("response to another challenge", "challenge_refused", func(r *gate.AdmitRequest) {
			r.Envelope.Response.ChallengeID = "other"
		}),
		answers("an answer is missing", func(a map[string]string) { delete(a, "t1") }),
		answers("an answer too many", func(a map[string]string) { a["t3"] = other }),
		answers("an answer to no task", func(a map[string]string) {
			delete(a, "t1")
			a["t9"] = other
		}),
		answers("a wrong answer", func(a map[string]string) { a["t1"] = other }),
		answers("an uppercase answer", func(a map[string]string) {
			a["t1"] = strings.ToUpper(other)
		}),
		edited("no answers", "challenge_refused", func(r *gate.AdmitRequest) {
			r.Envelope.Response.Answers = nil
		}),
		mac("challenge bound to nothing", "challenge_refused", "binding", nil, "bindingHash", ""),
		mac("challenge expired", "expired", ended...),
		mac("challenge from the future", "clock_skew", "iat", at(3*time.Second)),
		mac("challenge too old", "expired", "iat", at(-18*time.Second)),
		mac("challenge of another issuer", "not_allowed", "iss", "other"),
		mac("challenge for another audience", "not_allowed", "aud", "other"),
		forged("challenge of another secret", "signature_invalid", work,
			func(t *testing.T, _ *gatetest.Kit, token string) string {
				secret, err := evidence.NewSecret([]byte(strings.Repeat("x", 32)))
				check.Must(t, err)
				return minted(t, secret, evidence.ChallengeTokenKind(), token)
			}),
		forged("an artifact as challenge", "artifact_malformed", work,
			func(_ *testing.T, k *gatetest.Kit, _ string) string {
				return k.Deployment
			}),
		forged("no challenge", "artifact_missing", work, nothing),
	}
}

func nothing(*testing.T, *gatetest.Kit, string) string { return "" }

func deploymentRows() []row {
	changed := func(name, code string, pairs ...any) row {
		return resigned(name, code, evidence.DeploymentCertificateKind(), deployment, pairs...)
	}
	return []row{
		changed("certificate for another manifest", "deployment_mismatch", "manifestHash", other),
		changed("certificate for other controls", "deployment_mismatch", "controlsHash", other),
		changed("certificate for another deployment", "deployment_mismatch", "deploymentId", "other"),
		changed("certificate by another issuer", "not_allowed", "iss", "other"),
		changed("certificate for another audience", "not_allowed", "aud", "other"),
		changed("certificate expired", "expired", ended...),
		changed("certificate from the future", "clock_skew", "iat", at(time.Hour)),
		changed("certificate too old", "expired", "iat", at(-25*time.Hour)),
		forged("no certificate", "artifact_missing", deployment, nothing),
		forged("certificate signed by the registry", "key_purpose", deployment,
			func(t *testing.T, k *gatetest.Kit, token string) string {
				return signedBy(t, k.Key(t, evidence.PurposeSignerCertificate), evidence.DeploymentCertificateKind(), token)
			}),
		forged("certificate signed by a role's key", "key_purpose", deployment,
			func(t *testing.T, k *gatetest.Kit, token string) string {
				return signedBy(t, k.Key(t, evidence.PurposePolicyDecision), evidence.DeploymentCertificateKind(), token)
			}),
		forged("certificate of another manifest that is safe too", "deployment_mismatch", deployment,
			func(t *testing.T, k *gatetest.Kit, _ string) string {
				m := *k.Manifest
				m.MaxChallengeAgeMs = 14_999
				return k.Certify(t, &m)
			}),
	}
}

func signedBy[C any](t *testing.T, key evidence.Key, kind evidence.Kind[C], token string) string {
	t.Helper()
	c, err := evidence.UnverifiedClaims(kind, token)
	check.Must(t, err)
	if token, err = evidence.Sign(t.Context(), key, kind, c); err != nil {
		t.Fatal(err)
	}
	return token
}

func triggerRows() []row {
	event := func(name, code string, e gatetest.Event) row { return planned(name, code, gatetest.Plan{Event: e}) }
	proof := func(name, code, claim string, value any) row {
		return planned(name, code, gatetest.Claim(evidence.PurposeTriggerOriginProof, claim, value))
	}
	got := func(name, code, claim string, value any) row {
		return planned(name, code, gatetest.Claim(evidence.PurposeTriggerReceipt, claim, value))
	}
	return []row{
		event("event that a human asked for", "not_allowed", gatetest.Event{Kind: evidence.TriggerHumanRequest}),
		event("event of unknown kind", "not_allowed", gatetest.Event{Kind: evidence.TriggerUnknown}),
		event("event of a kind that nobody knows", "not_allowed", gatetest.Event{Kind: "source_event "}),
		event("event of another source", "not_allowed", gatetest.Event{Source: "gitlab"}),
		event("origin verified by hand", "not_allowed", gatetest.Event{Method: evidence.MethodManual}),
		event("origin reported by itself", "not_allowed", gatetest.Event{Method: evidence.MethodSelfReported}),
		event("origin verified in a way that the manifest leaves out", "not_allowed",
			gatetest.Event{Method: evidence.MethodExternalAttestation}),
		proof("origin proof for another binding", "artifacts_mismatch", "bindingHash", other),
		proof("origin proof for another event", "artifacts_mismatch", "eventId", "evt_2"),
		proof("origin proof for another payload", "artifacts_mismatch", "payloadHash", other),
		proof("origin proof of another kind", "artifacts_mismatch", "kind", evidence.TriggerScheduled),
		proof("origin proof of another source", "artifacts_mismatch", "source", "hooks"),
		proof("origin proof that the decision did not see", "artifacts_mismatch", "evidenceId", "delivery_2"),
		got("receipt for another binding", "artifacts_mismatch", "bindingHash", other),
		got("receipt for another event", "artifacts_mismatch", "eventId", "evt_2"),
		got("receipt for another payload", "artifacts_mismatch", "payloadHash", other),
		got("receipt of another kind", "artifacts_mismatch", "kind", evidence.TriggerScheduled),
		got("receipt of another source", "artifacts_mismatch", "source", "hooks"),
		got("receipt for a human", "human_involved", "humanInitiated", true),
		resigned("origin proof made again", "artifacts_mismatch", evidence.TriggerOriginProofKind(), origin,
			"jti", evidence.NewID()),
		resigned("receipt made again", "artifacts_mismatch", evidence.TriggerReceiptKind(), receipt,
			"jti", evidence.NewID()),
		exchanged("origin proof of another chain", origin), exchanged("receipt of another chain", receipt),
	}
}

func decisionRows() []row {
	d := func(name, code, claim string, value any) row {
		return planned(name, code, gatetest.Claim(evidence.PurposePolicyDecision, claim, value))
	}
	return []row{
		d("decision for a human", "human_involved", "humanInitiated", true),
		d("decision that denies", "policy_denied", "decision", "deny"),
		d("decision for another binding", "artifacts_mismatch", "bindingHash", other),
		d("decision for other content", "artifacts_mismatch", "contentHash", other),
		d("decision for another subject", "artifacts_mismatch", "subject", "agent:other"),
		d("decision for another action", "artifacts_mismatch", "action", "delete_post"),
		d("decision for another resource", "artifacts_mismatch", "resource", "POST /other"),
		d("decision for another challenge", "artifacts_mismatch", "challengeId", "other"),
		d("decision for another event", "artifacts_mismatch", "triggerEventId", "evt_2"),
		d("decision for another trigger kind", "artifacts_mismatch", "triggerKind", evidence.TriggerScheduled),
		d("decision for another trigger source", "artifacts_mismatch", "triggerSource", "hooks"),
		d("decision on another method", "artifacts_mismatch", "originVerificationMethod", evidence.MethodQueueClaim),
		d("decision on other evidence", "artifacts_mismatch", "originEvidenceId", "delivery_2"),
		d("decision on other bytes of evidence", "artifacts_mismatch", "originEvidenceHash", other),
		d("decision by another policy", "pin_mismatch", "policyHash", other),
		d("decision in another environment", "pin_mismatch", "environmentHash", other),
		d("decision for another runtime", "artifacts_mismatch", "runtimeId", "worker-2"),
		planned("everything by another policy", "pin_mismatch", gatetest.Plan{PolicyHash: other}),
		planned("everything in another environment", "pin_mismatch", gatetest.Plan{EnvHash: other}),
	}
}

func grantRows() []row {
	g := func(name, code, claim string, value any) row {
		return planned(name, code, gatetest.Claim(evidence.PurposeActionGrant, claim, value))
	}
	return []row{
		g("grant for another decision", "artifacts_mismatch", "policyDecisionIds", []string{"other"}),
		g("grant for a decision with other bytes", "artifacts_mismatch", "policyDecisionHashes", []string{other}),
		resigned("decision made again", "artifacts_mismatch", evidence.PolicyDecisionKind(), decision,
			"rule", "another"),
		g("grant for another action", "artifacts_mismatch", "actions", []string{"delete_post"}),
		g("grant for any action", "artifacts_mismatch", "actions", []string{"*"}),
		g("grant for another resource", "artifacts_mismatch", "resources", []string{"POST /other"}),
		g("grant for other content", "artifacts_mismatch", "contentHashes", []string{other}),
		g("grant for another binding", "artifacts_mismatch", "bindingHashes", []string{other}),
		g("grant for another runtime", "artifacts_mismatch", "runtimeIds", []string{"worker-2"}),
		g("grant for another event", "artifacts_mismatch", "triggerEventIds", []string{"evt_2"}),
		g("grant for another source", "artifacts_mismatch", "triggerSources", []string{"hooks"}),
		g("grant for another method", "artifacts_mismatch", "originVerificationMethods",
			[]string{evidence.MethodQueueClaim}),
		g("grant for other evidence", "artifacts_mismatch", "originEvidenceIds", []string{"delivery_2"}),
		g("grant for other bytes of evidence", "artifacts_mismatch", "originEvidenceHashes", []string{other}),
		g("grant for another subject", "artifacts_mismatch", "subject", "agent:other"),
		g("grant by another policy", "pin_mismatch", "policyHash", other),
		g("grant in another environment", "pin_mismatch", "environmentHash", other),
		exchanged("grant of another chain", grant),
		forged("grant with an empty scope", "artifact_malformed", grant,
			reclaim(evidence.ActionGrantKind(), "actions", []string{})),
	}
}

func runtimeRows() []row {
	a := func(name, code, claim string, value any) row {
		return planned(name, code, gatetest.Claim(evidence.PurposeRuntimeAttestation, claim, value))
	}
	return []row{
		a("attestation of an interactive run", "human_involved", "humanInteractive", true),
		a("attestation in another mode", "human_involved", "mode", "interactive"),
		a("attestation for another challenge", "artifacts_mismatch", "challengeId", "other"),
		a("attestation for another binding", "artifacts_mismatch", "bindingHash", other),
		a("attestation for other content", "artifacts_mismatch", "contentHash", other),
		a("attestation of another runtime", "artifacts_mismatch", "runtimeId", "worker-2"),
		a("attestation of a runtime that is not allowed", "not_allowed", "runtimeId", "worker-3"),
		a("attestation on another receipt", "artifacts_mismatch", "triggerReceiptHash", other),
		a("attestation for another event", "artifacts_mismatch", "trigger", claims{"id": "evt_2"}),
		a("attestation for another trigger kind", "artifacts_mismatch", "trigger",
			claims{"kind": evidence.TriggerScheduled}),
		a("attestation for another trigger source", "artifacts_mismatch", "trigger", claims{"source": "hooks"}),
		a("attestation of another policy", "pin_mismatch", "policyHash", other),
		a("attestation of another environment", "pin_mismatch", "environmentHash", other),
		planned("everything in another runtime", "not_allowed", gatetest.Plan{RuntimeID: "worker-3"}),
	}
}

func sessionRows() []row {
	s := func(name, code, claim string, value any) row {
		return planned(name, code, gatetest.Claim(evidence.PurposeAgentSession, claim, value))
	}
	return []row{
		s("session with a human prompt", "human_involved", "humanPromptPresent", true),
		s("session with a human operator", "human_involved", "humanOperatorPresent", true),
		s("session with a shell", "human_involved", "userShellAccess", true),
		s("session that users reach", "human_involved", "agentEnvironmentUserAccessible", true),
		s("session with a prompt as input", "not_allowed", "inputKind", evidence.InputHumanPrompt),
		s("session with a shell as input", "not_allowed", "inputKind", evidence.InputManualShell),
		s("session with unknown input", "not_allowed", "inputKind", evidence.TriggerUnknown),
		s("session with input of no listed kind", "not_allowed", "inputKind", "whatever"),
		s("session with another kind of input", "artifacts_mismatch", "inputKind", evidence.TriggerScheduled),
		s("session with another source of input", "artifacts_mismatch", "inputSource", "hooks"),
		s("session for another event", "artifacts_mismatch", "eventId", "evt_2"),
		s("session of a runtime that is not allowed", "not_allowed", "runtimeId", "worker-3"),
		s("session of another runtime", "artifacts_mismatch", "runtimeId", "worker-2"),
		s("session for another challenge", "artifacts_mismatch", "challengeId", "other"),
		s("session for another binding", "artifacts_mismatch", "bindingHash", other),
		s("session under another policy", "pin_mismatch", "policyHash", other),
		s("session in another environment", "pin_mismatch", "environmentHash", other),
	}
}

type artifact struct {
	name, purpose string
	at            func(*evidence.Envelope) *string
}

var artifacts = []artifact{
	{"origin proof", evidence.PurposeTriggerOriginProof, origin},
	{"trigger receipt", evidence.PurposeTriggerReceipt, receipt},
	{"policy decision", evidence.PurposePolicyDecision, decision},
	{"action grant", evidence.PurposeActionGrant, grant},
	{"runtime attestation", evidence.PurposeRuntimeAttestation, attestation},
	{"session receipt", evidence.PurposeAgentSession, session},
}

func artifactRows() []row {
	var rows []row
	for _, a := range artifacts {
		claim := func(what, code string, pairs ...any) {
			rows = append(rows, planned(a.name+" "+what, code, gatetest.Claim(a.purpose, pairs...)))
		}
		signed := func(by, code string, key func(t *testing.T, k *gatetest.Kit) evidence.Key) {
			rows = append(rows, row{a.name + " signed by " + by, code,
				func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
					return k.Build(t, gatetest.Plan{Signers: map[string]evidence.Key{a.purpose: key(t, k)}})
				}})
		}
		text := func(what, code string, change func(token string, e evidence.Envelope) string) {
			rows = append(rows, altered(a.name+" "+what, code,
				func(_ *testing.T, _ *gatetest.Kit, r *gate.AdmitRequest) {
					token := a.at(&r.Envelope)
					*token = change(*token, r.Envelope)
				}))
		}
		claim("expired", "expired", ended...)
		claim("from the future", "clock_skew", "iat", at(3*time.Second))
		claim("too old", "expired", "iat", at(-18*time.Second))
		claim("for another audience", "not_allowed", "aud", "other")
		claim("by another issuer than its key's", "key_purpose", "iss", "other")
		if a.purpose != evidence.PurposeTriggerOriginProof && a.purpose != evidence.PurposeTriggerReceipt {
			claim("that calls its key exportable", "key_custody", "keyExportable", true)
			claim("that claims another custody", "key_custody", "keyCustody", evidence.CustodyHardwareBacked)
		}
		for _, purpose := range gatetest.Roles {
			if purpose != a.purpose {
				signed("the key for "+purpose, "key_purpose", keyOf(purpose))
			}
		}
		for _, root := range []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate} {
			signed("the root for "+root, "key_purpose", keyOf(root))
		}
		signed("a stranger", "key_unknown", func(t *testing.T, _ *gatetest.Kit) evidence.Key {
			return gatetest.StrangerKey(t, "stranger:v1")
		})
		signed("a stranger under the key's name", "signature_invalid",
			func(t *testing.T, k *gatetest.Kit) evidence.Key {
				return gatetest.StrangerKey(t, k.Key(t, a.purpose).KeyID())
			})
		rows = append(rows, row{a.name + " whose key lost its certificate", "key_unknown",
			func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				k.Verifier.SetTrust(k.TrustWithout(t, a.purpose))
				return k.Chain(t)
			}})
		text("missing", "artifact_missing", func(string, evidence.Envelope) string { return "" })
		text("too large", "artifact_malformed", func(string, evidence.Envelope) string {
			return strings.Repeat("a", 16<<10+1)
		})
		text("replaced by the deployment certificate", "artifact_malformed",
			func(_ string, e evidence.Envelope) string {
				return e.DeploymentCertificate
			})
		text("without a signature", "signature_invalid", func(token string, _ evidence.Envelope) string {
			return token[:strings.LastIndexByte(token, '.')+1]
		})
	}
	return rows
}

func keyOf(purpose string) func(*testing.T, *gatetest.Kit) evidence.Key {
	return func(t *testing.T, k *gatetest.Kit) evidence.Key { return k.Key(t, purpose) }
}

func keyRows() []row {
	const purpose = evidence.PurposeRuntimeAttestation
	return []row{
		recertified("key certificate expired", "expired", ended...),
		recertified("key certificate from the future", "clock_skew", "iat", at(3*time.Second)),
		recertified("key certificate too old", "expired", "iat", at(-91*24*time.Hour)),
		recertified("key that the agent reaches", "key_custody", "accessibleToAgent", true),
		recertified("key that users reach", "key_custody", "accessibleToUsers", true),
		recertified("key that can be exported", "key_custody", "keyExportable", true),
		recertified("key in another custody", "key_custody", "keyCustody", "environment_variable"),
		recertified("key for another purpose", "key_purpose", "purposes", []string{evidence.PurposeAgentSession}),
		recertified("key of another issuer", "key_purpose", "subjectIssuer", "other"),
		recertified("key certificate by another issuer", "not_allowed", "iss", "other"),
		recertified("key certificate for another audience", "not_allowed", "aud", "other"),
		recertified("certificate for a later version", "key_retired", "subjectKeyId", "runtime-key:v9"),
		recertified("certificate for another key", "key_unknown", "subjectKeyId", "another-key:v9"),
		{"key version that is not certified yet", "trust_stale", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
			k.Rotate(t, evidence.PurposeRequestProof)
			k.Rotate(t, purpose)
			return k.Chain(t)
		}},
		{"certified key that the manifest does not name", "not_allowed",
			func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				key := newKey(t, "spare-key")
				k.Verifier.SetTrust(k.Trust(t, k.Vouch(t, key, purpose, k.Issuer(purpose))))
				return k.Build(t, gatetest.Plan{Signers: map[string]evidence.Key{purpose: key}})
			}},
		{"certified key whose name begins like the allowed one", "not_allowed",
			func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				key := newKey(t, "runtime-key:v1")
				k.Verifier.SetTrust(k.Trust(t, k.Vouch(t, key, purpose, k.Issuer(purpose))))
				return k.Build(t, gatetest.Plan{Signers: map[string]evidence.Key{purpose: key}})
			}},
		{"certified key of an issuer that the manifest does not name", "not_allowed",
			func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				k.Verifier.SetTrust(k.TrustWithout(t, purpose, k.Vouch(t, k.Key(t, purpose), purpose, "other")))
				return k.Build(t, gatetest.Claim(purpose, "iss", "other"))
			}},
	}
}

// reclaim signs any JSON as an artifact's claims; it drops a claim whose value is nil.
func reclaim[C any](kind evidence.Kind[C], pairs ...any) func(*testing.T, *gatetest.Kit, string) string {
	return func(t *testing.T, k *gatetest.Kit, token string) string {
		t.Helper()
		c := make(claims)
		check.Must(t, json.Unmarshal(part(t, token, 1), &c))
		for i := 0; i < len(pairs); i += 2 {
			c[pairs[i].(string)] = pairs[i+1]
		}
		maps.DeleteFunc(c, func(_ string, value any) bool { return value == nil })
		raw, err := json.Marshal(c)
		check.Must(t, err)
		key := k.Key(t, kind.Purpose)
		return gatetest.Forge(t, key, head("EdDSA", key.KeyID(), kind.Typ), raw)
	}
}

func part(t testing.TB, token string, n int) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[n])
	check.Must(t, err)
	return raw
}

func head(alg, kid, typ string) string {
	return `{"alg":"` + alg + `","kid":"` + kid + `","typ":"` + typ + `"}`
}

func formRows() []row {
	const purpose, typ = evidence.PurposeRuntimeAttestation, "runtime-attestation+jwt"
	const malformed = "artifact_malformed"
	header := func(name, code, header string) row {
		return forged(name, code, attestation, func(t *testing.T, k *gatetest.Kit, token string) string {
			key := k.Key(t, purpose)
			header := strings.NewReplacer("KID", key.KeyID(), "TYP", typ).Replace(header)
			return gatetest.Forge(t, key, header, part(t, token, 1))
		})
	}
	claim := func(name, code string, pairs ...any) row {
		return forged(name, code, attestation, reclaim(evidence.RuntimeAttestationKind(), pairs...))
	}
	payload := func(name string, change func(raw string) string) row {
		return forged(name, malformed, attestation, func(t *testing.T, k *gatetest.Kit, token string) string {
			key := k.Key(t, purpose)
			return gatetest.Forge(t, key, head("EdDSA", key.KeyID(), typ), []byte(change(string(part(t, token, 1)))))
		})
	}
	text := func(name, code string, change func(t *testing.T, parts []string) string) row {
		return forged(name, code, attestation, func(t *testing.T, _ *gatetest.Kit, token string) string {
			return change(t, strings.Split(token, "."))
		})
	}
	hmac256 := func(t *testing.T, k *gatetest.Kit, head, payload string) string {
		mac := hmac.New(sha256.New, k.Key(t, purpose).Public())
		mac.Write([]byte(head + "." + payload))
		return head + "." + payload + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	return []row{
		header("alg none", malformed, head("none", "KID", "TYP")),
		header("alg EdDSA in other case", malformed, head("eddsa", "KID", "TYP")),
		header("no alg", malformed, `{"kid":"KID","typ":"TYP"}`),
		header("another typ", malformed, head("EdDSA", "KID", "JWT")),
		header("no typ", malformed, `{"alg":"EdDSA","kid":"KID"}`),
		header("unknown crit", malformed, `{"alg":"EdDSA","crit":["x"],"kid":"KID","typ":"TYP"}`),
		header("embedded jwk", malformed, `{"alg":"EdDSA","jwk":{"kty":"OKP"},"kid":"KID","typ":"TYP"}`),
		header("jku", malformed, `{"alg":"EdDSA","jku":"https://keys.example","kid":"KID","typ":"TYP"}`),
		header("b64 false", malformed, `{"alg":"EdDSA","b64":false,"kid":"KID","typ":"TYP"}`),
		header("kid twice", malformed, `{"alg":"EdDSA","kid":"x","kid":"KID","typ":"TYP"}`),
		header("header in another order", malformed, `{"kid":"KID","alg":"EdDSA","typ":"TYP"}`),
		header("header with a space", malformed, `{"alg":"EdDSA", "kid":"KID","typ":"TYP"}`),
		header("kid that is a path", "key_unknown", head("EdDSA", "../KID", "TYP")),
		header("kid without a version", "key_unknown", head("EdDSA", "runtime-key", "TYP")),
		header("no kid", malformed, head("EdDSA", "", "TYP")),
		header("header that is no object", malformed, `[]`),
		forged("HS256 with the public key", malformed, attestation,
			func(t *testing.T, k *gatetest.Kit, token string) string {
				head := base64.RawURLEncoding.EncodeToString([]byte(head("HS256", k.Key(t, purpose).KeyID(), typ)))
				return hmac256(t, k, head, strings.Split(token, ".")[1])
			}),
		forged("HS256 with the public key under the header EdDSA", "signature_invalid", attestation,
			func(t *testing.T, k *gatetest.Kit, token string) string {
				parts := strings.Split(token, ".")
				return hmac256(t, k, parts[0], parts[1])
			}),
		text("two parts", malformed, func(_ *testing.T, p []string) string { return p[0] + "." + p[1] }),
		text("a line break at the end", malformed, func(_ *testing.T, p []string) string {
			return strings.Join(p, ".") + "\n"
		}),
		text("padding", malformed, func(_ *testing.T, p []string) string { return strings.Join(p, ".") + "==" }),
		text("a claim changed under the signature", "signature_invalid", func(t *testing.T, p []string) string {
			raw := strings.Replace(string(part(t, strings.Join(p, "."), 1)), "worker-1", "worker-2", 1)
			return p[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(raw)) + "." + p[2]
		}),
		payload("claims with a space", func(raw string) string { return " " + raw }),
		payload("a claim twice", func(raw string) string { return `{"humanInteractive":true,` + raw[1:] }),
		claim("an unknown claim", malformed, "nbf", 1),
		claim("a claim of another type", malformed, "humanInteractive", "false"),
		claim("no binding hash", malformed, "bindingHash", nil),
		claim("an empty binding hash", malformed, "bindingHash", ""),
		claim("an empty jti", malformed, "jti", ""),
		claim("a jti without end", malformed, "jti", strings.Repeat("j", 257)),
		claim("exp before iat", malformed, "exp", at(-time.Second)),
		claim("exp at iat", malformed, "exp", at(0)),
		claim("a lifetime over the bound", malformed, "exp", at(601*time.Second)),
	}
}

var update = flag.Bool("update", false, "rewrite testdata/refusals.txt")

func TestRefusals(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(workRows(), deploymentRows(), triggerRows(), decisionRows(), grantRows(), runtimeRows(),
		sessionRows(), artifactRows(), keyRows(), revokedRows(), formRows())
	sentences := gatetest.Golden(t, "testdata/refusals.txt", *update)
	names := make(map[string]bool)
	for _, r := range rows {
		if names[r.name] {
			t.Errorf("two rows have the name %q", r.name)
		}
		names[r.name] = true
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t, twoRuntimes)
			var used gatetest.Used
			trust, valid, changed := k.Verifier.Trust(), k.Chain(t), r.make(t, k)
			a, err := gatetest.Admit(t.Context(), k.Gate, changed, used.Consume)
			gatetest.WantCode(t, err, r.code)
			sentences.Want(t, r.name, err)
			if a.Capability != "" || a.CapabilityID != "" || len(a.Keys) != 0 {
				t.Error("a refused chain has earned a capability")
			}
			if used.Calls() != 0 {
				t.Error("a refused chain has consumed something")
			}
			if n := len(a.Checks); n == 0 || a.Checks[n-1].OK || a.Checks[n-1].Code != r.code {
				t.Errorf("the checks do not end with the refusal: %+v", a.Checks)
			}
			if d := problem.DetailsOf(err); d.Code != r.code {
				t.Errorf("the code is not in the table of problems: %s", r.code)
			}
			for name, e := range map[string]evidence.Envelope{"its own": changed.Envelope, "the valid chain's": valid.Envelope} {
				again := changed
				again.Opened = opened(t, k, e)
				b, err := k.Gate.Admit(t.Context(), again)
				if err == nil || !slices.Equal(a.Checks, b.Checks) {
					t.Errorf("with %s artifacts opened before, the gate says %v; %+v", name, err, b.Checks)
				}
			}
			k.Verifier.SetTrust(trust)
			if _, err := gatetest.Admit(t.Context(), k.Gate, valid, used.Consume); err != nil {
				t.Errorf("the valid chain is refused: %v", err)
			}
		})
	}
	t.Logf("%d rows", len(rows))
}

// TestDecisionPins: artifacts that rest on the decision would refuse later with the same code.
func TestDecisionPins(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	for _, p := range []gatetest.Plan{{PolicyHash: other}, {EnvHash: other}} {
		a, err := gatetest.Admit(t.Context(), k.Gate, k.Build(t, p), used.Consume)
		gatetest.WantCode(t, err, "pin_mismatch")
		if last := a.Checks[len(a.Checks)-1]; last.Name != "policy decision" {
			t.Errorf("%v, by the check of the %s", err, last.Name)
		}
	}
}

func TestRuntimeMayBeLeftToTheSessionPolicy(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t, func(m *policy.Manifest) { m.RuntimePolicy.AllowedRuntimeIDs = nil })
	r := authorizing(t, k)
	if _, err := k.Gate.Authorize(t.Context(), r); err != nil {
		t.Error(err)
	}
	var used gatetest.Used
	a, err := gatetest.Admit(t.Context(), k.Gate, k.Build(t, gatetest.Plan{RuntimeID: "worker-2"}), used.Consume)
	gatetest.WantCode(t, err, "not_allowed")
	if last := a.Checks[len(a.Checks)-1]; last.Name != "agent session receipt" {
		t.Errorf("another runtime was refused by the check of the %s", last.Name)
	}
	r.Capability = minted(t, k.Secret, evidence.CapabilityKind(), r.Capability, "runtime",
		claims{"runtimeId": "worker-2"})
	_, err = k.Gate.Authorize(t.Context(), r)
	gatetest.WantCode(t, err, "not_allowed")
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	r := k.Chain(t)
	r.Binding.Nonce = "a caller's own nonce says nothing"
	a, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume)
	check.Must(t, err)
	if want := []string{"action_grant", "challenge", "origin_proof", "policy_decision", "runtime_attestation",
		"session_receipt", "trigger_receipt"}; !slices.Equal(used.Kinds(), want) {
		t.Errorf("consumed %v, want %v", used.Kinds(), want)
	}
	for _, c := range a.Checks {
		if !c.OK {
			t.Errorf("the check %s failed", c.Name)
		}
	}
	if len(a.Checks) != 7 {
		t.Errorf("%d checks, want 7", len(a.Checks))
	}
	c, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), a.Capability)
	if err != nil || c.ID != a.CapabilityID || c.Binding.Hash() != a.BindingHash || c.Expires != a.Expires.Unix() {
		t.Errorf("the admission says something else than the capability: %+v, %+v, %v", a, c, err)
	}
	if !c.VerificationConsumed || c.Runtime == nil || c.Session == nil || c.Runtime.RuntimeID != "worker-1" ||
		c.Session.SessionID != "ses_1" || !c.Binding.SameAction(gatetest.Binding()) {
		t.Errorf("the capability says something else than the chain: %+v", c)
	}
	if c.Runtime.KeyID != "runtime-key:v1" || c.DecisionID == "" || c.GrantID == "" ||
		c.ChallengeID != r.Envelope.Response.ChallengeID {
		t.Errorf("the capability names other artifacts: %+v", c)
	}
}

func TestAdmitTwice(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	r := k.Chain(t)
	admits(t, k.Gate, r, used.Consume)
	a, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume)
	gatetest.WantCode(t, err, "replayed")
	if a.Capability != "" || !errors.Is(err, ledger.ErrConsumed) {
		t.Error("a replayed chain has earned a capability")
	}
}

func TestReplayOfOneArtifact(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	ch, err := k.Gate.Challenge(t.Context(), gatetest.Binding())
	check.Must(t, err)
	admits(t, k.Gate, k.Over(t, gatetest.Plan{}, ch), used.Consume)
	_, err = gatetest.Admit(t.Context(), k.Gate, k.Over(t, gatetest.Plan{}, ch), used.Consume)
	gatetest.WantCode(t, err, "replayed")
	if n := len(used.Kinds()); n != 7 {
		t.Errorf("%d keys are consumed; want the 7 of the first chain", n)
	}
}

// TestKeysOutlast: the gate keeps every key as long as it accepts the artifact, with any skew.
func TestKeysOutlast(t *testing.T) {
	t.Parallel()
	for skew, kept := range map[time.Duration]time.Duration{time.Second: evidence.DefaultSkew,
		evidence.DefaultSkew: evidence.DefaultSkew, 10 * time.Second: 10 * time.Second} {
		k := gatetest.New(t)
		v, err := evidence.NewVerifier(k.Trust(t), evidence.VerifierOptions{Now: k.Clock.Now, Skew: skew})
		check.Must(t, err)
		k.Gate = gateWith(t, k, v)
		a, err := k.Gate.Admit(t.Context(), k.Chain(t))
		check.Must(t, err)
		keys := a.Keys
		post, err := k.Gate.Authorize(t.Context(), gate.AuthorizeRequest{
			Capability: a.Capability, RequestProof: k.Proof(t, a.Capability, gatetest.Token),
			Binding: gatetest.Binding(), AccessTokenHash: evidence.HashBytes([]byte(gatetest.Token)),
		})
		check.Must(t, err)
		ends := map[string]time.Duration{"challenge": challenge.DefaultLifetime,
			challenge.CapabilityKey: k.Strict.CapabilityTTL}
		for _, key := range append(keys, post.Keys...) {
			end, ok := ends[key.Kind]
			if !ok {
				end = time.Minute
			}
			if want := gatetest.Start.Add(end + kept); !key.Expires.Equal(want) {
				t.Errorf("skew %s: the %s is kept until %s; it is accepted until %s", skew, key.Kind, key.Expires.UTC(), want)
			}
		}
		if n := len(keys) + len(post.Keys); n != 9 {
			t.Errorf("%d keys, want 9", n)
		}
	}
}

func gateWith(t *testing.T, k *gatetest.Kit, v *evidence.Verifier) *gate.Gate {
	t.Helper()
	g, err := gate.New(
		gate.Options{Challenges: k.Challenges, Secret: k.Secret, Issuer: "gate", Verifier: v, Strict: k.Strict})
	check.Must(t, err)
	return g
}

// TestTimesAtTheEdge: to the last second.
func TestTimesAtTheEdge(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		after time.Duration
		code  string
	}{{-2 * time.Second, ""}, {-3 * time.Second, "clock_skew"}, {16 * time.Second, ""}, {17 * time.Second, "expired"}} {
		k := gatetest.New(t)
		r := authorizing(t, k)
		k.Clock.Advance(row.after)
		_, err := k.Gate.Authorize(t.Context(), r)
		if row.code == "" {
			if err != nil {
				t.Errorf("authorized after %s: %v", row.after, err)
			}
			continue
		}
		gatetest.WantCode(t, err, row.code)
	}
	for _, row := range []struct {
		after time.Duration
		code  string
	}{{-2 * time.Second, ""}, {-3 * time.Second, "clock_skew"}, {17 * time.Second, ""}, {18 * time.Second, "expired"},
		{40 * time.Second, "expired"}} {
		k := gatetest.New(t)
		var used gatetest.Used
		r := k.Chain(t)
		k.Clock.Advance(row.after)
		_, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume)
		if row.code == "" {
			if err != nil {
				t.Errorf("after %s: %v", row.after, err)
			}
			continue
		}
		gatetest.WantCode(t, err, row.code)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	const purpose = evidence.PurposeRuntimeAttestation
	before := k.Chain(t)
	k.Rotate(t, purpose)
	second := k.Vouch(t, k.Key(t, purpose), purpose, k.Issuer(purpose))
	k.Verifier.SetTrust(k.Trust(t, second))
	for _, r := range []gate.AdmitRequest{before, k.Chain(t)} {
		if _, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume); err != nil {
			t.Errorf("both versions are certified: %v", err)
		}
	}
	before, after := before, k.Chain(t)
	k.Verifier.SetTrust(k.TrustWithout(t, purpose, second)) // the first version is retired
	_, err := gatetest.Admit(t.Context(), k.Gate, before, used.Consume)
	gatetest.WantCode(t, err, "key_retired")
	admits(t, k.Gate, after, used.Consume)
}

func authorizing(t testing.TB, k *gatetest.Kit) gate.AuthorizeRequest {
	t.Helper()
	var used gatetest.Used
	a, err := gatetest.Admit(t.Context(), k.Gate, k.Chain(t), used.Consume)
	check.Must(t, err)
	return gate.AuthorizeRequest{
		Capability: a.Capability, RequestProof: k.Proof(t, a.Capability, gatetest.Token),
		Binding: gatetest.Binding(), AccessTokenHash: evidence.HashBytes([]byte(gatetest.Token)),
	}
}

// TestAuthorizeRefusals: what the golden vectors of posts do not show.
func TestAuthorizeRefusals(t *testing.T) {
	t.Parallel()
	type change = func(*testing.T, *gatetest.Kit, *gate.AuthorizeRequest)
	proof := func(pairs ...any) change {
		return func(t *testing.T, k *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = k.Proof(t, r.Capability, gatetest.Token, pairs...)
		}
	}
	capability := func(pairs ...any) change {
		return func(t *testing.T, k *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.Capability = minted(t, k.Secret, evidence.CapabilityKind(), r.Capability, pairs...)
		}
	}
	asked := func(pairs ...any) change {
		return func(t *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) { gatetest.Set(t, &r.Binding, pairs...) }
	}
	session := func(claim string) change { return capability("session", claims{claim: true}) }
	runtime := func(claim string, value any) change { return capability("runtime", claims{claim: value}) }
	token := func(text string) change {
		return func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) { r.AccessTokenHash = text }
	}
	for _, row := range []struct {
		name, code string
		change     change
	}{
		{"no content", "artifact_malformed", asked("contentHash", "")},
		{"no capability", "artifact_missing", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.Capability = ""
		}},
		{"capability with a bit changed", "signature_invalid",
			func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
				flip := "A"
				if r.Capability[len(r.Capability)-2] == 'A' {
					flip = "B"
				}
				r.Capability = r.Capability[:len(r.Capability)-2] + flip + r.Capability[len(r.Capability)-1:]
			}},
		{"challenge token as capability", "artifact_malformed",
			func(t *testing.T, k *gatetest.Kit, r *gate.AuthorizeRequest) {
				r.Capability = k.Chain(t).Envelope.ChallengeToken
			}},
		{"capability expired", "expired", capability(ended...)},
		{"capability from the future", "clock_skew", capability("iat", at(3*time.Second))},
		{"capability of a session with a human operator", "human_involved", session("humanOperatorPresent")},
		{"capability of a session that users reach", "human_involved", session("agentEnvironmentUserAccessible")},
		{"capability of another runtime issuer", "not_allowed", runtime("issuer", "other")},
		{"capability of a human's request", "not_allowed",
			runtime("trigger", claims{"kind": evidence.TriggerHumanRequest})},
		{"capability of another source", "not_allowed", runtime("trigger", claims{"source": "gitlab"})},
		{"capability in another environment", "not_allowed", runtime("environmentHash", other)},
		{"no proof", "artifact_missing", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = ""
		}},
		{"no access token", "proof_access_token", token(evidence.HashBytes(nil))},
		{"nothing of an access token", "proof_access_token", token("")},
		{"proof expired", "expired", proof(ended...)},
		{"proof from the future", "clock_skew", proof("iat", at(3*time.Second))},
		{"proof too old", "expired", proof("iat", at(-18*time.Second))},
		{"proof for another audience", "not_allowed", proof("aud", "other")},
		{"proof by another issuer", "key_purpose", proof("iss", "other")},
		{"proof with an exportable key", "key_custody", proof("keyExportable", true)},
		{"proof by the grant's key", "key_purpose", func(t *testing.T, k *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = signedBy(t, k.Key(t, evidence.PurposeActionGrant), evidence.RequestProofKind(),
				r.RequestProof)
		}},
		{"proof by a stranger", "key_unknown", func(t *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = signedBy(t, gatetest.StrangerKey(t, "stranger:v1"), evidence.RequestProofKind(),
				r.RequestProof)
		}},
		{"proof whose key lost its certificate", "key_unknown",
			func(t *testing.T, k *gatetest.Kit, _ *gate.AuthorizeRequest) {
				k.Verifier.SetTrust(k.TrustWithout(t, evidence.PurposeRequestProof))
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t)
			r, trust := authorizing(t, k), k.Verifier.Trust()
			valid := r
			row.change(t, k, &r)
			a, err := k.Gate.Authorize(t.Context(), r)
			gatetest.WantCode(t, err, row.code)
			if len(a.Keys) != 0 || a.Claims != (evidence.Capability{}) {
				t.Error("a refused post has keys or claims")
			}
			if last := a.Checks[len(a.Checks)-1]; last.OK || last.Code != row.code {
				t.Errorf("the last check is %+v", last)
			}
			k.Verifier.SetTrust(trust)
			a, err = k.Gate.Authorize(t.Context(), valid)
			if err != nil || len(a.Keys) != 2 || a.Keys[0].Kind != challenge.CapabilityKey ||
				a.Keys[1].Kind != "request_proof" {
				t.Errorf("the valid post is not authorised: %v %v", a.Keys, err)
			}
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	whole := gate.Options{Challenges: k.Challenges, Secret: k.Secret, Issuer: "gate", Verifier: k.Verifier,
		Strict: k.Strict}
	for name, drop := range map[string]func(*gate.Options){
		"challenges": func(o *gate.Options) { o.Challenges = nil }, "issuer": func(o *gate.Options) { o.Issuer = "" },
		"verifier": func(o *gate.Options) { o.Verifier = nil }, "strict": func(o *gate.Options) { o.Strict = nil },
		"a secret": func(o *gate.Options) { o.Secret = evidence.Secret{} },
	} {
		o := whole
		drop(&o)
		if _, err := gate.New(o); err == nil {
			t.Errorf("a gate was made without %s", name)
		}
	}
	_, err := k.Gate.Challenge(t.Context(), evidence.Binding{Subject: "agent:worker-1"})
	gatetest.WantCode(t, err, "artifact_malformed")
	_, err = k.Gate.Challenge(t.Context(), evidence.Binding{})
	gatetest.WantCode(t, err, "artifact_malformed")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if ch, err := k.Gate.Challenge(ended, gatetest.Binding()); !errors.Is(err, context.Canceled) || ch.Token != "" {
		t.Errorf("a caller that has left is given the challenge %q: %v", ch.Token, err)
	}
}

func BenchmarkAdmit(b *testing.B) {
	k := gatetest.New(b)
	r := k.Chain(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Gate.Admit(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAuthorize(b *testing.B) {
	k := gatetest.New(b)
	r := authorizing(b, k)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Gate.Authorize(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func newKey(t *testing.T, name string) custody.Version {
	t.Helper()
	m, err := custody.NewMemory(name)
	check.Must(t, err)
	v, err := m.Current(t.Context())
	check.Must(t, err)
	return v
}
