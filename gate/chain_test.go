package gate_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
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

// row is one change of a valid chain, and its refusal.
type row struct {
	name, code string
	make       func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest
}

// planned rows change an artifact before those that rest on it.
func planned(name, code string, p gatetest.Plan) row {
	return row{name, code, func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest { return k.Build(t, p) }}
}

// altered rows change a finished chain.
func altered(name, code string, change func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest)) row {
	return row{name, code, func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
		r := k.Chain(t)
		change(t, k, &r)
		return r
	}}
}

// resigned rows sign one artifact again; the others rest on the old one.
func resigned[C any](name, code string, kind evidence.Kind[C], at func(*evidence.Envelope) *string,
	change func(*C)) row {
	return altered(name, code, func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
		token := at(&r.Envelope)
		*token = gatetest.Resign(t, k, kind, *token, change)
	})
}

func forged(name, code string, at func(*evidence.Envelope) *string,
	change func(t *testing.T, k *gatetest.Kit, token string) string) row {
	return altered(name, code, func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
		token := at(&r.Envelope)
		*token = change(t, k, *token)
	})
}

// recertified rows change the certificate of the runtime's key.
func recertified(name, code string, change func(*evidence.SignerCertificate)) row {
	return altered(name, code, func(t *testing.T, k *gatetest.Kit, _ *gate.AdmitRequest) {
		const purpose = evidence.PurposeRuntimeAttestation
		c := gatetest.Resign(t, k, evidence.SignerCertificateKind(), k.Certificates[purpose], change)
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

func shift(d time.Duration) func(*evidence.Registered) {
	return func(r *evidence.Registered) {
		r.IssuedAt += int64(d / time.Second)
		r.Expires += int64(d / time.Second)
	}
}

func ended(r *evidence.Registered) {
	r.IssuedAt -= 10
	r.Expires = r.IssuedAt + 2
}

func workRows() []row {
	mac := func(change func(*evidence.ChallengeToken)) func(*testing.T, *gatetest.Kit, string) string {
		return func(t *testing.T, k *gatetest.Kit, token string) string {
			c, err := evidence.UnverifiedClaims(evidence.ChallengeTokenKind(), token)
			check.Must(t, err)
			change(&c)
			if token, err = evidence.SignMAC(k.Secret, evidence.ChallengeTokenKind(), c); err != nil {
				t.Fatal(err)
			}
			return token
		}
	}
	asked := func(change func(*evidence.Binding)) func(*testing.T, *gatetest.Kit, *gate.AdmitRequest) {
		return func(_ *testing.T, _ *gatetest.Kit, r *gate.AdmitRequest) { change(&r.Binding) }
	}
	answers := func(change func(map[string]string)) func(*testing.T, *gatetest.Kit, *gate.AdmitRequest) {
		return func(_ *testing.T, _ *gatetest.Kit, r *gate.AdmitRequest) { change(r.Envelope.Response.Answers) }
	}
	return []row{
		altered("asked for another subject", "challenge_refused", asked(func(b *evidence.Binding) {
			b.Subject = "agent:other"
		})),
		altered("asked for another action", "challenge_refused", asked(func(b *evidence.Binding) {
			b.Action = "delete_post"
		})),
		altered("asked for another resource", "challenge_refused", asked(func(b *evidence.Binding) {
			b.Resource = "POST /posts?draft=1"
		})),
		altered("asked for other content", "challenge_refused", asked(func(b *evidence.Binding) { b.ContentHash = other })),
		altered("asked without a subject", "artifact_malformed", asked(func(b *evidence.Binding) { b.Subject = "" })),
		altered("asked without an action", "artifact_malformed", asked(func(b *evidence.Binding) { b.Action = "" })),
		altered("asked without a resource", "artifact_malformed", asked(func(b *evidence.Binding) { b.Resource = "" })),
		altered("asked with an uppercase hash", "artifact_malformed", asked(func(b *evidence.Binding) {
			b.ContentHash = strings.ToUpper(b.ContentHash)
		})),
		altered("asked for nothing", "artifact_malformed", asked(func(b *evidence.Binding) { *b = evidence.Binding{} })),
		altered("response to another challenge", "challenge_refused",
			func(_ *testing.T, _ *gatetest.Kit, r *gate.AdmitRequest) {
				r.Envelope.Response.ChallengeID = "other"
			}),
		altered("an answer is missing", "challenge_refused", answers(func(a map[string]string) { delete(a, "t1") })),
		altered("an answer too many", "challenge_refused", answers(func(a map[string]string) { a["t3"] = other })),
		altered("an answer to no task", "challenge_refused", answers(func(a map[string]string) {
			delete(a, "t1")
			a["t9"] = other
		})),
		altered("a wrong answer", "challenge_refused", answers(func(a map[string]string) { a["t1"] = other })),
		altered("an uppercase answer", "challenge_refused", answers(func(a map[string]string) {
			a["t1"] = strings.ToUpper(other)
		})),
		altered("no answers", "challenge_refused", func(_ *testing.T, _ *gatetest.Kit, r *gate.AdmitRequest) {
			r.Envelope.Response.Answers = nil
		}),
		forged("challenge bound to nothing", "challenge_refused", work, mac(func(c *evidence.ChallengeToken) {
			c.Binding, c.BindingHash = nil, ""
		})),
		forged("challenge expired", "expired", work, mac(func(c *evidence.ChallengeToken) { ended(&c.Registered) })),
		forged("challenge from the future", "clock_skew", work, mac(func(c *evidence.ChallengeToken) {
			shift(3 * time.Second)(&c.Registered)
		})),
		forged("challenge too old", "expired", work, mac(func(c *evidence.ChallengeToken) {
			shift(-18 * time.Second)(&c.Registered)
		})),
		forged("challenge of another issuer", "not_allowed", work, mac(func(c *evidence.ChallengeToken) {
			c.Issuer = "other"
		})),
		forged("challenge for another audience", "not_allowed", work, mac(func(c *evidence.ChallengeToken) {
			c.Audience = "other"
		})),
		forged("challenge of another secret", "signature_invalid", work,
			func(t *testing.T, _ *gatetest.Kit, token string) string {
				c, err := evidence.UnverifiedClaims(evidence.ChallengeTokenKind(), token)
				check.Must(t, err)
				secret, err := evidence.NewSecret([]byte(strings.Repeat("x", 32)))
				check.Must(t, err)
				if token, err = evidence.SignMAC(secret, evidence.ChallengeTokenKind(), c); err != nil {
					t.Fatal(err)
				}
				return token
			}),
		forged("an artifact as challenge", "artifact_malformed", work, func(_ *testing.T, k *gatetest.Kit, _ string) string {
			return k.Deployment
		}),
		forged("no challenge", "artifact_missing", work, nothing),
	}
}

func nothing(*testing.T, *gatetest.Kit, string) string { return "" }

func deploymentRows() []row {
	changed := func(name, code string, change func(*evidence.DeploymentCertificate)) row {
		return resigned(name, code, evidence.DeploymentCertificateKind(), deployment, change)
	}
	return []row{
		changed("certificate for another manifest", "deployment_mismatch", func(c *evidence.DeploymentCertificate) {
			c.ManifestHash = other
		}),
		changed("certificate for other controls", "deployment_mismatch", func(c *evidence.DeploymentCertificate) {
			c.ControlsHash = other
		}),
		changed("certificate for another deployment", "deployment_mismatch", func(c *evidence.DeploymentCertificate) {
			c.DeploymentID = "other"
		}),
		changed("certificate by another issuer", "not_allowed", func(c *evidence.DeploymentCertificate) {
			c.Issuer = "other"
		}),
		changed("certificate for another audience", "not_allowed", func(c *evidence.DeploymentCertificate) {
			c.Audience = "other"
		}),
		changed("certificate expired", "expired", func(c *evidence.DeploymentCertificate) { ended(&c.Registered) }),
		changed("certificate from the future", "clock_skew", func(c *evidence.DeploymentCertificate) {
			shift(time.Hour)(&c.Registered)
		}),
		changed("certificate too old", "expired", func(c *evidence.DeploymentCertificate) { c.IssuedAt -= 25 * 3600 }),
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
	if token, err = evidence.Sign(context.Background(), key, kind, c); err != nil {
		t.Fatal(err)
	}
	return token
}

func triggerRows() []row {
	event := func(name, code string, e gatetest.Event) row { return planned(name, code, gatetest.Plan{Event: e}) }
	proof := func(name, code string, change func(*evidence.TriggerOriginProof)) row {
		return planned(name, code, gatetest.Plan{Origin: change})
	}
	got := func(name, code string, change func(*evidence.TriggerReceipt)) row {
		return planned(name, code, gatetest.Plan{Receipt: change})
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
		proof("origin proof for another binding", "artifacts_mismatch", func(c *evidence.TriggerOriginProof) {
			c.BindingHash = other
		}),
		proof("origin proof for another event", "artifacts_mismatch", func(c *evidence.TriggerOriginProof) {
			c.EventID = "evt_2"
		}),
		proof("origin proof for another payload", "artifacts_mismatch", func(c *evidence.TriggerOriginProof) {
			c.PayloadHash = other
		}),
		proof("origin proof of another kind", "artifacts_mismatch", func(c *evidence.TriggerOriginProof) {
			c.Kind = evidence.TriggerScheduled
		}),
		proof("origin proof of another source", "artifacts_mismatch", func(c *evidence.TriggerOriginProof) {
			c.Source = "hooks"
		}),
		proof("origin proof that the decision did not see", "artifacts_mismatch", func(c *evidence.TriggerOriginProof) {
			c.EvidenceID = "delivery_2"
		}),
		got("receipt for another binding", "artifacts_mismatch", func(c *evidence.TriggerReceipt) { c.BindingHash = other }),
		got("receipt for another event", "artifacts_mismatch", func(c *evidence.TriggerReceipt) { c.EventID = "evt_2" }),
		got("receipt for another payload", "artifacts_mismatch", func(c *evidence.TriggerReceipt) { c.PayloadHash = other }),
		got("receipt of another kind", "artifacts_mismatch", func(c *evidence.TriggerReceipt) {
			c.Kind = evidence.TriggerScheduled
		}),
		got("receipt of another source", "artifacts_mismatch", func(c *evidence.TriggerReceipt) { c.Source = "hooks" }),
		got("receipt for a human", "human_involved", func(c *evidence.TriggerReceipt) { c.HumanInitiated = true }),
		resigned("origin proof made again", "artifacts_mismatch", evidence.TriggerOriginProofKind(), origin,
			func(c *evidence.TriggerOriginProof) {
				c.ID = evidence.NewID()
			}),
		resigned("receipt made again", "artifacts_mismatch", evidence.TriggerReceiptKind(), receipt,
			func(c *evidence.TriggerReceipt) {
				c.ID = evidence.NewID()
			}),
		altered("origin proof of another chain", "artifacts_mismatch",
			func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
				r.Envelope.OriginProof = k.Chain(t).Envelope.OriginProof
			}),
		altered("receipt of another chain", "artifacts_mismatch", func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
			r.Envelope.TriggerReceipt = k.Chain(t).Envelope.TriggerReceipt
		}),
	}
}

func decisionRows() []row {
	d := func(name, code string, change func(*evidence.PolicyDecision)) row {
		return planned(name, code, gatetest.Plan{Decision: change})
	}
	return []row{
		d("decision for a human", "human_involved", func(c *evidence.PolicyDecision) { c.HumanInitiated = true }),
		d("decision that denies", "policy_denied", func(c *evidence.PolicyDecision) { c.Decision = "deny" }),
		d("decision for another binding", "artifacts_mismatch", func(c *evidence.PolicyDecision) { c.BindingHash = other }),
		d("decision for other content", "artifacts_mismatch", func(c *evidence.PolicyDecision) { c.ContentHash = other }),
		d("decision for another subject", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.Subject = "agent:other"
		}),
		d("decision for another action", "artifacts_mismatch", func(c *evidence.PolicyDecision) { c.Action = "delete_post" }),
		d("decision for another resource", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.Resource = "POST /other"
		}),
		d("decision for another challenge", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.ChallengeID = "other"
		}),
		d("decision for another event", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.TriggerEventID = "evt_2"
		}),
		d("decision for another trigger kind", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.TriggerKind = evidence.TriggerScheduled
		}),
		d("decision for another trigger source", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.TriggerSource = "hooks"
		}),
		d("decision on another method", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.OriginVerificationMethod = evidence.MethodQueueClaim
		}),
		d("decision on other evidence", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.OriginEvidenceID = "delivery_2"
		}),
		d("decision on other bytes of evidence", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.OriginEvidenceHash = other
		}),
		d("decision by another policy", "pin_mismatch", func(c *evidence.PolicyDecision) { c.PolicyHash = other }),
		d("decision in another environment", "pin_mismatch", func(c *evidence.PolicyDecision) { c.EnvironmentHash = other }),
		d("decision for another runtime", "artifacts_mismatch", func(c *evidence.PolicyDecision) {
			c.RuntimeID = "worker-2"
		}),
		planned("everything by another policy", "pin_mismatch", gatetest.Plan{PolicyHash: other}),
		planned("everything in another environment", "pin_mismatch", gatetest.Plan{EnvHash: other}),
	}
}

func grantRows() []row {
	g := func(name, code string, change func(*evidence.ActionGrant)) row {
		return planned(name, code, gatetest.Plan{Grant: change})
	}
	return []row{
		g("grant for another decision", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.PolicyDecisionIDs = []string{"other"}
		}),
		g("grant for a decision with other bytes", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.PolicyDecisionHashes = []string{other}
		}),
		resigned("decision made again", "artifacts_mismatch", evidence.PolicyDecisionKind(), decision,
			func(c *evidence.PolicyDecision) {
				c.Rule = "another"
			}),
		g("grant for another action", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.Actions = []string{"delete_post"}
		}),
		g("grant for any action", "artifacts_mismatch", func(c *evidence.ActionGrant) { c.Actions = []string{"*"} }),
		g("grant for another resource", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.Resources = []string{"POST /other"}
		}),
		g("grant for other content", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.ContentHashes = []string{other}
		}),
		g("grant for another binding", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.BindingHashes = []string{other}
		}),
		g("grant for another runtime", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.RuntimeIDs = []string{"worker-2"}
		}),
		g("grant for another event", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.TriggerEventIDs = []string{"evt_2"}
		}),
		g("grant for another source", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.TriggerSources = []string{"hooks"}
		}),
		g("grant for another method", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.OriginVerificationMethods = []string{evidence.MethodQueueClaim}
		}),
		g("grant for other evidence", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.OriginEvidenceIDs = []string{"delivery_2"}
		}),
		g("grant for other bytes of evidence", "artifacts_mismatch", func(c *evidence.ActionGrant) {
			c.OriginEvidenceHashes = []string{other}
		}),
		g("grant for another subject", "artifacts_mismatch", func(c *evidence.ActionGrant) { c.Subject = "agent:other" }),
		g("grant by another policy", "pin_mismatch", func(c *evidence.ActionGrant) { c.PolicyHash = other }),
		g("grant in another environment", "pin_mismatch", func(c *evidence.ActionGrant) { c.EnvironmentHash = other }),
		altered("grant of another chain", "artifacts_mismatch", func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
			r.Envelope.Grant = k.Chain(t).Envelope.Grant
		}),
		forged("grant with an empty scope", "artifact_malformed", grant,
			reclaim(evidence.PurposeActionGrant, evidence.ActionGrantKind(), func(c map[string]any) {
				c["actions"] = []string{}
			})),
	}
}

func runtimeRows() []row {
	a := func(name, code string, change func(*evidence.RuntimeAttestation)) row {
		return planned(name, code, gatetest.Plan{Attestation: change})
	}
	return []row{
		a("attestation of an interactive run", "human_involved", func(c *evidence.RuntimeAttestation) {
			c.HumanInteractive = true
		}),
		a("attestation in another mode", "human_involved", func(c *evidence.RuntimeAttestation) { c.Mode = "interactive" }),
		a("attestation for another challenge", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.ChallengeID = "other"
		}),
		a("attestation for another binding", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.BindingHash = other
		}),
		a("attestation for other content", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.ContentHash = other
		}),
		a("attestation of another runtime", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.RuntimeID = "worker-2"
		}),
		a("attestation of a runtime that is not allowed", "not_allowed", func(c *evidence.RuntimeAttestation) {
			c.RuntimeID = "worker-3"
		}),
		a("attestation on another receipt", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.TriggerReceiptHash = other
		}),
		a("attestation for another event", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.Trigger.ID = "evt_2"
		}),
		a("attestation for another trigger kind", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.Trigger.Kind = evidence.TriggerScheduled
		}),
		a("attestation for another trigger source", "artifacts_mismatch", func(c *evidence.RuntimeAttestation) {
			c.Trigger.Source = "hooks"
		}),
		a("attestation of another policy", "pin_mismatch", func(c *evidence.RuntimeAttestation) { c.PolicyHash = other }),
		a("attestation of another environment", "pin_mismatch", func(c *evidence.RuntimeAttestation) {
			c.EnvironmentHash = other
		}),
		planned("everything in another runtime", "not_allowed", gatetest.Plan{RuntimeID: "worker-3"}),
	}
}

func sessionRows() []row {
	s := func(name, code string, change func(*evidence.SessionReceipt)) row {
		return planned(name, code, gatetest.Plan{Session: change})
	}
	return []row{
		s("session with a human prompt", "human_involved", func(c *evidence.SessionReceipt) { c.HumanPromptPresent = true }),
		s("session with a human operator", "human_involved", func(c *evidence.SessionReceipt) {
			c.HumanOperatorPresent = true
		}),
		s("session with a shell", "human_involved", func(c *evidence.SessionReceipt) { c.UserShellAccess = true }),
		s("session that users reach", "human_involved", func(c *evidence.SessionReceipt) {
			c.AgentEnvironmentUserAccessible = true
		}),
		s("session with a prompt as input", "not_allowed", func(c *evidence.SessionReceipt) {
			c.InputKind = evidence.InputHumanPrompt
		}),
		s("session with a shell as input", "not_allowed", func(c *evidence.SessionReceipt) {
			c.InputKind = evidence.InputManualShell
		}),
		s("session with unknown input", "not_allowed", func(c *evidence.SessionReceipt) {
			c.InputKind = evidence.TriggerUnknown
		}),
		s("session with input of no listed kind", "not_allowed", func(c *evidence.SessionReceipt) {
			c.InputKind = "whatever"
		}),
		s("session with another kind of input", "artifacts_mismatch", func(c *evidence.SessionReceipt) {
			c.InputKind = evidence.TriggerScheduled
		}),
		s("session with another source of input", "artifacts_mismatch", func(c *evidence.SessionReceipt) {
			c.InputSource = "hooks"
		}),
		s("session for another event", "artifacts_mismatch", func(c *evidence.SessionReceipt) { c.EventID = "evt_2" }),
		s("session of a runtime that is not allowed", "not_allowed", func(c *evidence.SessionReceipt) {
			c.RuntimeID = "worker-3"
		}),
		s("session of another runtime", "artifacts_mismatch", func(c *evidence.SessionReceipt) { c.RuntimeID = "worker-2" }),
		s("session for another challenge", "artifacts_mismatch", func(c *evidence.SessionReceipt) {
			c.ChallengeID = "other"
		}),
		s("session for another binding", "artifacts_mismatch", func(c *evidence.SessionReceipt) { c.BindingHash = other }),
		s("session under another policy", "pin_mismatch", func(c *evidence.SessionReceipt) { c.PolicyHash = other }),
		s("session in another environment", "pin_mismatch", func(c *evidence.SessionReceipt) { c.EnvironmentHash = other }),
	}
}

type artifact struct {
	name, purpose string
	at            func(*evidence.Envelope) *string
	// plan changes an artifact's registered claims, key claims or signer.
	plan func(func(*evidence.Registered), func(*evidence.KeyClaims), evidence.Key) gatetest.Plan
}

func both(r *evidence.Registered, k *evidence.KeyClaims, reg func(*evidence.Registered),
	key func(*evidence.KeyClaims)) {
	if reg != nil {
		reg(r)
	}
	if key != nil && k != nil {
		key(k)
	}
}

func signers(purpose string, key evidence.Key) map[string]evidence.Key {
	if key == nil {
		return nil
	}
	return map[string]evidence.Key{purpose: key}
}

type (
	regFunc = func(*evidence.Registered)
	keyFunc = func(*evidence.KeyClaims)
)

var artifacts = []artifact{
	{"origin proof", evidence.PurposeTriggerOriginProof, origin,
		func(r regFunc, k keyFunc, by evidence.Key) gatetest.Plan {
			return gatetest.Plan{Signers: signers(evidence.PurposeTriggerOriginProof, by),
				Origin: func(c *evidence.TriggerOriginProof) {
					both(&c.Registered, nil, r, k)
				}}
		}},
	{"trigger receipt", evidence.PurposeTriggerReceipt, receipt,
		func(r regFunc, k keyFunc, by evidence.Key) gatetest.Plan {
			return gatetest.Plan{Signers: signers(evidence.PurposeTriggerReceipt, by),
				Receipt: func(c *evidence.TriggerReceipt) {
					both(&c.Registered, nil, r, k)
				}}
		}},
	{"policy decision", evidence.PurposePolicyDecision, decision,
		func(r regFunc, k keyFunc, by evidence.Key) gatetest.Plan {
			return gatetest.Plan{Signers: signers(evidence.PurposePolicyDecision, by),
				Decision: func(c *evidence.PolicyDecision) {
					both(&c.Registered, &c.KeyClaims, r, k)
				}}
		}},
	{"action grant", evidence.PurposeActionGrant, grant, func(r regFunc, k keyFunc, by evidence.Key) gatetest.Plan {
		return gatetest.Plan{Signers: signers(evidence.PurposeActionGrant, by), Grant: func(c *evidence.ActionGrant) {
			both(&c.Registered, &c.KeyClaims, r, k)
		}}
	}},
	{"runtime attestation", evidence.PurposeRuntimeAttestation, attestation,
		func(r regFunc, k keyFunc, by evidence.Key) gatetest.Plan {
			return gatetest.Plan{Signers: signers(evidence.PurposeRuntimeAttestation, by),
				Attestation: func(c *evidence.RuntimeAttestation) {
					both(&c.Registered, &c.KeyClaims, r, k)
				}}
		}},
	{"session receipt", evidence.PurposeAgentSession, session, func(r regFunc, k keyFunc, by evidence.Key) gatetest.Plan {
		return gatetest.Plan{Signers: signers(evidence.PurposeAgentSession, by), Session: func(c *evidence.SessionReceipt) {
			both(&c.Registered, &c.KeyClaims, r, k)
		}}
	}},
}

func artifactRows() []row {
	var rows []row
	for _, a := range artifacts {
		add := func(what, code string, make func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest) {
			rows = append(rows, row{a.name + " " + what, code, make})
		}
		timed := func(what, code string, change regFunc) {
			rows = append(rows, planned(a.name+" "+what, code, a.plan(change, nil, nil)))
		}
		timed("expired", "expired", ended)
		timed("from the future", "clock_skew", shift(3*time.Second))
		timed("too old", "expired", shift(-18*time.Second))
		timed("for another audience", "not_allowed", func(r *evidence.Registered) { r.Audience = "other" })
		timed("by another issuer than its key's", "key_purpose", func(r *evidence.Registered) { r.Issuer = "other" })
		for _, purpose := range gatetest.Roles {
			if purpose != a.purpose {
				add("signed by the key for "+purpose, "key_purpose", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
					return k.Build(t, a.plan(nil, nil, k.Key(t, purpose)))
				})
			}
		}
		for _, purpose := range []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate} {
			add("signed by the root for "+purpose, "key_purpose", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				return k.Build(t, a.plan(nil, nil, k.Key(t, purpose)))
			})
		}
		add("signed by a stranger", "key_unknown", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
			return k.Build(t, a.plan(nil, nil, gatetest.StrangerKey(t, "stranger:v1")))
		})
		add("signed by a stranger under the key's name", "signature_invalid",
			func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				return k.Build(t, a.plan(nil, nil, gatetest.StrangerKey(t, k.Key(t, a.purpose).KeyID())))
			})
		add("whose key lost its certificate", "key_unknown", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
			k.Verifier.SetTrust(k.TrustWithout(t, a.purpose))
			return k.Chain(t)
		})
		add("missing", "artifact_missing", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
			r := k.Chain(t)
			*a.at(&r.Envelope) = ""
			return r
		})
		add("too large", "artifact_malformed", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
			r := k.Chain(t)
			*a.at(&r.Envelope) = strings.Repeat("a", 16<<10+1)
			return r
		})
		add("replaced by the deployment certificate", "artifact_malformed",
			func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				r := k.Chain(t)
				*a.at(&r.Envelope) = r.Envelope.DeploymentCertificate
				return r
			})
		add("without a signature", "signature_invalid", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
			r := k.Chain(t)
			token := a.at(&r.Envelope)
			*token = (*token)[:strings.LastIndexByte(*token, '.')+1]
			return r
		})
		if a.purpose != evidence.PurposeTriggerOriginProof && a.purpose != evidence.PurposeTriggerReceipt {
			rows = append(rows,
				planned(a.name+" that calls its key exportable", "key_custody", a.plan(nil, func(c *evidence.KeyClaims) {
					c.KeyExportable = true
				}, nil)),
				planned(a.name+" that claims another custody", "key_custody", a.plan(nil, func(c *evidence.KeyClaims) {
					c.KeyCustody = evidence.CustodyHardwareBacked
				}, nil)))
		}
	}
	return rows
}

func keyRows() []row {
	const purpose = evidence.PurposeRuntimeAttestation
	return []row{
		recertified("key certificate expired", "expired", func(c *evidence.SignerCertificate) { ended(&c.Registered) }),
		recertified("key certificate from the future", "clock_skew", func(c *evidence.SignerCertificate) {
			shift(3 * time.Second)(&c.Registered)
		}),
		recertified("key certificate too old", "expired", func(c *evidence.SignerCertificate) {
			shift(-91 * 24 * time.Hour)(&c.Registered)
			c.Expires += 90 * 24 * 3600
		}),
		recertified("key that the agent reaches", "key_custody", func(c *evidence.SignerCertificate) {
			c.AccessibleToAgent = true
		}),
		recertified("key that users reach", "key_custody", func(c *evidence.SignerCertificate) {
			c.AccessibleToUsers = true
		}),
		recertified("key that can be exported", "key_custody", func(c *evidence.SignerCertificate) {
			c.KeyExportable = true
		}),
		recertified("key in another custody", "key_custody", func(c *evidence.SignerCertificate) {
			c.KeyCustody = "environment_variable"
		}),
		recertified("key for another purpose", "key_purpose", func(c *evidence.SignerCertificate) {
			c.Purposes = []string{evidence.PurposeAgentSession}
		}),
		recertified("key of another issuer", "key_purpose", func(c *evidence.SignerCertificate) {
			c.SubjectIssuer = "other"
		}),
		recertified("key certificate by another issuer", "not_allowed", func(c *evidence.SignerCertificate) {
			c.Issuer = "other"
		}),
		recertified("key certificate for another audience", "not_allowed", func(c *evidence.SignerCertificate) {
			c.Audience = "other"
		}),
		recertified("certificate for a later version", "key_retired", func(c *evidence.SignerCertificate) {
			c.SubjectKeyID = "runtime-key:v9"
		}),
		recertified("certificate for another key", "key_unknown", func(c *evidence.SignerCertificate) {
			c.SubjectKeyID = "another-key:v9"
		}),
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
				return k.Build(t, gatetest.Plan{Attestation: func(c *evidence.RuntimeAttestation) { c.Issuer = "other" }})
			}},
	}
}

// reclaim signs any JSON as an artifact's claims.
func reclaim[C any](purpose string, kind evidence.Kind[C], change func(map[string]any)) func(*testing.T, *gatetest.Kit,
	string) string {
	return func(t *testing.T, k *gatetest.Kit, token string) string {
		t.Helper()
		claims := make(map[string]any)
		check.Must(t, json.Unmarshal(part(t, token, 1), &claims))
		change(claims)
		raw, err := json.Marshal(claims)
		check.Must(t, err)
		key := k.Key(t, purpose)
		return gatetest.Forge(t, key, head("EdDSA", key.KeyID(), kind.Typ), raw)
	}
}

func part(t *testing.T, token string, n int) []byte {
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
	header := func(name, code string, header func(kid string) string) row {
		return forged(name, code, attestation, func(t *testing.T, k *gatetest.Kit, token string) string {
			key := k.Key(t, purpose)
			return gatetest.Forge(t, key, header(key.KeyID()), part(t, token, 1))
		})
	}
	claims := func(name, code string, change func(map[string]any)) row {
		return forged(name, code, attestation, reclaim(purpose, evidence.RuntimeAttestationKind(), change))
	}
	return []row{
		header("alg none", "artifact_malformed", func(kid string) string { return head("none", kid, typ) }),
		header("alg EdDSA in other case", "artifact_malformed", func(kid string) string { return head("eddsa", kid, typ) }),
		header("no alg", "artifact_malformed", func(kid string) string {
			return `{"kid":"` + kid + `","typ":"` + typ + `"}`
		}),
		header("another typ", "artifact_malformed", func(kid string) string { return head("EdDSA", kid, "JWT") }),
		header("no typ", "artifact_malformed", func(kid string) string { return `{"alg":"EdDSA","kid":"` + kid + `"}` }),
		header("unknown crit", "artifact_malformed", func(kid string) string {
			return `{"alg":"EdDSA","crit":["x"],"kid":"` + kid + `","typ":"` + typ + `"}`
		}),
		header("embedded jwk", "artifact_malformed", func(kid string) string {
			return `{"alg":"EdDSA","jwk":{"kty":"OKP"},"kid":"` + kid + `","typ":"` + typ + `"}`
		}),
		header("jku", "artifact_malformed", func(kid string) string {
			return `{"alg":"EdDSA","jku":"https://keys.example","kid":"` + kid + `","typ":"` + typ + `"}`
		}),
		header("b64 false", "artifact_malformed", func(kid string) string {
			return `{"alg":"EdDSA","b64":false,"kid":"` + kid + `","typ":"` + typ + `"}`
		}),
		header("kid twice", "artifact_malformed", func(kid string) string {
			return `{"alg":"EdDSA","kid":"x","kid":"` + kid + `","typ":"` + typ + `"}`
		}),
		header("header in another order", "artifact_malformed", func(kid string) string {
			return `{"kid":"` + kid + `","alg":"EdDSA","typ":"` + typ + `"}`
		}),
		header("header with a space", "artifact_malformed", func(kid string) string {
			return `{"alg":"EdDSA", "kid":"` + kid + `","typ":"` + typ + `"}`
		}),
		header("kid that is a path", "key_unknown", func(kid string) string { return head("EdDSA", "../"+kid, typ) }),
		header("kid without a version", "key_unknown", func(string) string { return head("EdDSA", "runtime-key", typ) }),
		header("no kid", "artifact_malformed", func(string) string { return head("EdDSA", "", typ) }),
		header("header that is no object", "artifact_malformed", func(string) string { return `[]` }),
		forged("HS256 with the public key", "artifact_malformed", attestation,
			func(t *testing.T, k *gatetest.Kit, token string) string {
				key := k.Key(t, purpose)
				input := base64.RawURLEncoding.EncodeToString([]byte(head("HS256", key.KeyID(), typ))) + "." +
					strings.Split(token, ".")[1]
				mac := hmac.New(sha256.New, key.Public())
				mac.Write([]byte(input))
				return input + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
			}),
		forged("HS256 with the public key under the header EdDSA", "signature_invalid", attestation,
			func(t *testing.T, k *gatetest.Kit, token string) string {
				parts := strings.Split(token, ".")
				mac := hmac.New(sha256.New, k.Key(t, purpose).Public())
				mac.Write([]byte(parts[0] + "." + parts[1]))
				return parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
			}),
		forged("two parts", "artifact_malformed", attestation, func(_ *testing.T, _ *gatetest.Kit, token string) string {
			return token[:strings.LastIndexByte(token, '.')]
		}),
		forged("a line break at the end", "artifact_malformed", attestation,
			func(_ *testing.T, _ *gatetest.Kit, token string) string {
				return token + "\n"
			}),
		forged("padding", "artifact_malformed", attestation, func(_ *testing.T, _ *gatetest.Kit, token string) string {
			return token + "=="
		}),
		forged("a claim changed under the signature", "signature_invalid", attestation,
			func(t *testing.T, _ *gatetest.Kit, token string) string {
				parts := strings.Split(token, ".")
				raw := strings.Replace(string(part(t, token, 1)), "worker-1", "worker-2", 1)
				return parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(raw)) + "." + parts[2]
			}),
		forged("claims with a space", "artifact_malformed", attestation,
			func(t *testing.T, k *gatetest.Kit, token string) string {
				key := k.Key(t, purpose)
				return gatetest.Forge(t, key, head("EdDSA", key.KeyID(), typ), append([]byte{' '}, part(t, token, 1)...))
			}),
		forged("a claim twice", "artifact_malformed", attestation, func(t *testing.T, k *gatetest.Kit, token string) string {
			key := k.Key(t, purpose)
			raw := `{"humanInteractive":true,` + string(part(t, token, 1)[1:])
			return gatetest.Forge(t, key, head("EdDSA", key.KeyID(), typ), []byte(raw))
		}),
		claims("an unknown claim", "artifact_malformed", func(c map[string]any) { c["nbf"] = 1 }),
		claims("a claim of another type", "artifact_malformed", func(c map[string]any) { c["humanInteractive"] = "false" }),
		claims("no binding hash", "artifact_malformed", func(c map[string]any) { delete(c, "bindingHash") }),
		claims("an empty binding hash", "artifact_malformed", func(c map[string]any) { c["bindingHash"] = "" }),
		claims("an empty jti", "artifact_malformed", func(c map[string]any) { c["jti"] = "" }),
		claims("a jti without end", "artifact_malformed", func(c map[string]any) { c["jti"] = strings.Repeat("j", 257) }),
		claims("exp before iat", "artifact_malformed", func(c map[string]any) { c["exp"] = c["iat"].(float64) - 1 }),
		claims("exp at iat", "artifact_malformed", func(c map[string]any) { c["exp"] = c["iat"] }),
		claims("a lifetime over the bound", "artifact_malformed", func(c map[string]any) {
			c["exp"] = c["iat"].(float64) + 601
		}),
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
			valid, changed := k.Chain(t), r.make(t, k)
			a, err := gatetest.Admit(context.Background(), k.Gate, changed, used.Consume)
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
				b, err := k.Gate.Admit(context.Background(), again)
				if err == nil || !slices.Equal(a.Checks, b.Checks) {
					t.Errorf("with %s artifacts opened before, the gate says %v; %+v", name, err, b.Checks)
				}
			}
			k.Verifier.SetTrust(k.Trust(t))
			if _, err := gatetest.Admit(context.Background(), k.Gate, valid, used.Consume); err != nil {
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
		a, err := gatetest.Admit(context.Background(), k.Gate, k.Build(t, p), used.Consume)
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
	if _, err := k.Gate.Authorize(context.Background(), r); err != nil {
		t.Error(err)
	}
	var used gatetest.Used
	a, err := gatetest.Admit(context.Background(), k.Gate, k.Build(t, gatetest.Plan{RuntimeID: "worker-2"}), used.Consume)
	gatetest.WantCode(t, err, "not_allowed")
	if last := a.Checks[len(a.Checks)-1]; last.Name != "agent session receipt" {
		t.Errorf("another runtime was refused by the check of the %s", last.Name)
	}
	c, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), r.Capability)
	check.Must(t, err)
	c.Runtime.RuntimeID = "worker-2"
	if r.Capability, err = evidence.SignMAC(k.Secret, evidence.CapabilityKind(), c); err != nil {
		t.Fatal(err)
	}
	_, err = k.Gate.Authorize(context.Background(), r)
	gatetest.WantCode(t, err, "not_allowed")
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	r := k.Chain(t)
	r.Binding.Nonce = "a caller's own nonce says nothing"
	a, err := gatetest.Admit(context.Background(), k.Gate, r, used.Consume)
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
	if _, err := gatetest.Admit(context.Background(), k.Gate, r, used.Consume); err != nil {
		t.Fatal(err)
	}
	a, err := gatetest.Admit(context.Background(), k.Gate, r, used.Consume)
	gatetest.WantCode(t, err, "replayed")
	if a.Capability != "" || !errors.Is(err, ledger.ErrConsumed) {
		t.Error("a replayed chain has earned a capability")
	}
}

func TestReplayOfOneArtifact(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	ch, err := k.Gate.Challenge(context.Background(), gatetest.Binding())
	check.Must(t, err)
	if _, err := gatetest.Admit(context.Background(), k.Gate, k.Over(t, gatetest.Plan{}, ch), used.Consume); err != nil {
		t.Fatal(err)
	}
	_, err = gatetest.Admit(context.Background(), k.Gate, k.Over(t, gatetest.Plan{}, ch), used.Consume)
	gatetest.WantCode(t, err, "replayed")
	if n := len(used.Kinds()); n != 7 {
		t.Errorf("%d keys are consumed; want the 7 of the first chain", n)
	}
}

// TestKeysOutlast: every key is kept as long as its artifact is accepted, whatever the gate's skew.
func TestKeysOutlast(t *testing.T) {
	t.Parallel()
	for skew, kept := range map[time.Duration]time.Duration{time.Second: evidence.DefaultSkew,
		evidence.DefaultSkew: evidence.DefaultSkew, 10 * time.Second: 10 * time.Second} {
		k := gatetest.New(t)
		v, err := evidence.NewVerifier(k.Trust(t), evidence.VerifierOptions{Now: k.Clock.Now, Skew: skew})
		check.Must(t, err)
		k.Gate = gateWith(t, k, v)
		a, err := k.Gate.Admit(context.Background(), k.Chain(t))
		check.Must(t, err)
		keys := a.Keys
		post, err := k.Gate.Authorize(context.Background(), gate.AuthorizeRequest{
			Capability: a.Capability, RequestProof: k.Proof(t, a.Capability, gatetest.Token, nil),
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
		_, err := k.Gate.Authorize(context.Background(), r)
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
		_, err := gatetest.Admit(context.Background(), k.Gate, r, used.Consume)
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
		if _, err := gatetest.Admit(context.Background(), k.Gate, r, used.Consume); err != nil {
			t.Errorf("both versions are certified: %v", err)
		}
	}
	before, after := before, k.Chain(t)
	k.Verifier.SetTrust(k.TrustWithout(t, purpose, second)) // the first version is retired
	_, err := gatetest.Admit(context.Background(), k.Gate, before, used.Consume)
	gatetest.WantCode(t, err, "key_retired")
	if _, err := gatetest.Admit(context.Background(), k.Gate, after, used.Consume); err != nil {
		t.Error(err)
	}
}

func authorizing(t testing.TB, k *gatetest.Kit) gate.AuthorizeRequest {
	t.Helper()
	var used gatetest.Used
	a, err := gatetest.Admit(context.Background(), k.Gate, k.Chain(t), used.Consume)
	check.Must(t, err)
	return gate.AuthorizeRequest{
		Capability: a.Capability, RequestProof: k.Proof(t, a.Capability, gatetest.Token, nil),
		Binding: gatetest.Binding(), AccessTokenHash: evidence.HashBytes([]byte(gatetest.Token)),
	}
}

func TestAuthorizeRefusals(t *testing.T) {
	t.Parallel()
	proof := func(change func(*evidence.RequestProof)) func(*testing.T, *gatetest.Kit, *gate.AuthorizeRequest) {
		return func(t *testing.T, k *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = k.Proof(t, r.Capability, gatetest.Token, change)
		}
	}
	capability := func(change func(*evidence.Capability)) func(*testing.T, *gatetest.Kit, *gate.AuthorizeRequest) {
		return func(t *testing.T, k *gatetest.Kit, r *gate.AuthorizeRequest) {
			c, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), r.Capability)
			check.Must(t, err)
			change(&c)
			if r.Capability, err = evidence.SignMAC(k.Secret, evidence.CapabilityKind(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked := func(change func(*evidence.Binding)) func(*testing.T, *gatetest.Kit, *gate.AuthorizeRequest) {
		return func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) { change(&r.Binding) }
	}
	for _, row := range []struct {
		name, code string
		change     func(*testing.T, *gatetest.Kit, *gate.AuthorizeRequest)
	}{
		{"another subject", "artifacts_mismatch", asked(func(b *evidence.Binding) { b.Subject = "agent:other" })},
		{"another action", "artifacts_mismatch", asked(func(b *evidence.Binding) { b.Action = "delete_post" })},
		{"another resource", "artifacts_mismatch", asked(func(b *evidence.Binding) { b.Resource = "POST /posts?draft=1" })},
		{"other content", "artifacts_mismatch", asked(func(b *evidence.Binding) { b.ContentHash = other })},
		{"no content", "artifact_malformed", asked(func(b *evidence.Binding) { b.ContentHash = "" })},
		{"no capability", "artifact_missing", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.Capability = ""
		}},
		{"capability with a bit changed", "signature_invalid", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
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
		{"capability of another gate", "not_allowed", capability(func(c *evidence.Capability) { c.Issuer = "other" })},
		{"capability expired", "expired", capability(func(c *evidence.Capability) { ended(&c.Registered) })},
		{"capability too old", "expired", capability(func(c *evidence.Capability) { c.IssuedAt -= 18 })},
		{"capability from the future", "clock_skew", capability(func(c *evidence.Capability) {
			shift(3 * time.Second)(&c.Registered)
		})},
		{"capability that rests on nothing consumed", "artifact_missing", capability(func(c *evidence.Capability) {
			c.VerificationConsumed = false
		})},
		{"capability without a runtime", "artifact_missing", capability(func(c *evidence.Capability) { c.Runtime = nil })},
		{"capability without a session", "artifact_missing", capability(func(c *evidence.Capability) { c.Session = nil })},
		{"capability without a decision", "artifact_missing", capability(func(c *evidence.Capability) { c.DecisionID = "" })},
		{"capability without a grant", "artifact_missing", capability(func(c *evidence.Capability) { c.GrantID = "" })},
		{"capability of a session with a human prompt", "human_involved", capability(func(c *evidence.Capability) {
			c.Session.HumanPromptPresent = true
		})},
		{"capability of a session with a human operator", "human_involved", capability(func(c *evidence.Capability) {
			c.Session.HumanOperatorPresent = true
		})},
		{"capability of a session with a shell", "human_involved", capability(func(c *evidence.Capability) {
			c.Session.UserShellAccess = true
		})},
		{"capability of a session that users reach", "human_involved", capability(func(c *evidence.Capability) {
			c.Session.AgentEnvironmentUserAccessible = true
		})},
		{"capability of another runtime", "not_allowed", capability(func(c *evidence.Capability) {
			c.Runtime.RuntimeID = "worker-3"
		})},
		{"capability of another runtime issuer", "not_allowed", capability(func(c *evidence.Capability) {
			c.Runtime.Issuer = "other"
		})},
		{"capability of another runtime key", "not_allowed", capability(func(c *evidence.Capability) {
			c.Runtime.KeyID = "spare-key:v1"
		})},
		{"capability of a human's request", "not_allowed", capability(func(c *evidence.Capability) {
			c.Runtime.Trigger.Kind = evidence.TriggerHumanRequest
		})},
		{"capability of another source", "not_allowed", capability(func(c *evidence.Capability) {
			c.Runtime.Trigger.Source = "gitlab"
		})},
		{"capability under another policy", "not_allowed", capability(func(c *evidence.Capability) {
			c.Runtime.PolicyHash = other
		})},
		{"capability in another environment", "not_allowed", capability(func(c *evidence.Capability) {
			c.Runtime.EnvironmentHash = other
		})},
		{"capability on an old attestation", "expired", capability(func(c *evidence.Capability) {
			c.Runtime.IssuedAt -= 18
		})},
		{"no proof", "artifact_missing", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = ""
		}},
		{"another access token", "proof_access_token", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.AccessTokenHash = evidence.HashBytes([]byte("Bearer stolen"))
		}},
		{"no access token", "proof_access_token", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.AccessTokenHash = evidence.HashBytes(nil)
		}},
		{"nothing of an access token", "proof_access_token", func(_ *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.AccessTokenHash = ""
		}},
		{"proof over another capability", "artifacts_mismatch", proof(func(c *evidence.RequestProof) {
			c.CapabilityID = "other"
		})},
		{"proof for another binding", "artifacts_mismatch", proof(func(c *evidence.RequestProof) { c.BindingHash = other })},
		{"proof for other content", "artifacts_mismatch", proof(func(c *evidence.RequestProof) { c.ContentHash = other })},
		{"proof for another subject", "artifacts_mismatch", proof(func(c *evidence.RequestProof) {
			c.Subject = "agent:other"
		})},
		{"proof for another action", "artifacts_mismatch", proof(func(c *evidence.RequestProof) {
			c.Action = "delete_post"
		})},
		{"proof for another resource", "artifacts_mismatch", proof(func(c *evidence.RequestProof) {
			c.Resource = "POST /other"
		})},
		{"proof expired", "expired", proof(func(c *evidence.RequestProof) { ended(&c.Registered) })},
		{"proof from the future", "clock_skew", proof(func(c *evidence.RequestProof) {
			shift(3 * time.Second)(&c.Registered)
		})},
		{"proof too old", "expired", proof(func(c *evidence.RequestProof) { shift(-18 * time.Second)(&c.Registered) })},
		{"proof for another audience", "not_allowed", proof(func(c *evidence.RequestProof) { c.Audience = "other" })},
		{"proof by another issuer", "key_purpose", proof(func(c *evidence.RequestProof) { c.Issuer = "other" })},
		{"proof with an exportable key", "key_custody", proof(func(c *evidence.RequestProof) { c.KeyExportable = true })},
		{"proof by the grant's key", "key_purpose", func(t *testing.T, k *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = signedBy(t, k.Key(t, evidence.PurposeActionGrant), evidence.RequestProofKind(), r.RequestProof)
		}},
		{"proof by a stranger", "key_unknown", func(t *testing.T, _ *gatetest.Kit, r *gate.AuthorizeRequest) {
			r.RequestProof = signedBy(t, gatetest.StrangerKey(t, "stranger:v1"), evidence.RequestProofKind(), r.RequestProof)
		}},
		{"proof whose key lost its certificate", "key_unknown",
			func(t *testing.T, k *gatetest.Kit, _ *gate.AuthorizeRequest) {
				k.Verifier.SetTrust(k.TrustWithout(t, evidence.PurposeRequestProof))
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t)
			r := authorizing(t, k)
			valid := r
			row.change(t, k, &r)
			a, err := k.Gate.Authorize(context.Background(), r)
			gatetest.WantCode(t, err, row.code)
			if len(a.Keys) != 0 || a.Claims != (evidence.Capability{}) {
				t.Error("a refused post has keys or claims")
			}
			if last := a.Checks[len(a.Checks)-1]; last.OK || last.Code != row.code {
				t.Errorf("the last check is %+v", last)
			}
			k.Verifier.SetTrust(k.Trust(t))
			a, err = k.Gate.Authorize(context.Background(), valid)
			if err != nil || len(a.Keys) != 2 || a.Keys[0].Kind != challenge.CapabilityKey || a.Keys[1].Kind != "request_proof" {
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
	_, err := k.Gate.Challenge(context.Background(), evidence.Binding{Subject: "agent:worker-1"})
	gatetest.WantCode(t, err, "artifact_malformed")
	_, err = k.Gate.Challenge(context.Background(), evidence.Binding{})
	gatetest.WantCode(t, err, "artifact_malformed")
	ended, cancel := context.WithCancel(context.Background())
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
	v, err := m.Current(context.Background())
	check.Must(t, err)
	return v
}
