package vectors_test

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/policy"
)

// manifestFile is the manifest behind the vectors. It is not the example: that may change without the wire format.
//
//go:embed manifest.yaml
var manifestFile []byte

const (
	content     = `{"text":"hello","to":"world"}`
	accessToken = "Bearer upstream"
	gateName    = "gate" // iss and aud of the gate's own tokens
	gateSecret  = "the gate"
)

type deployment struct {
	manifest *policy.Manifest
	strict   *policy.Strict
	roles    map[string]role
}

type role struct {
	purpose, issuer, audience string
	key                       key
}

func newDeployment() deployment {
	m := must(manifest.Parse(manifestFile))
	d := deployment{manifest: m, strict: must(m.Strict()), roles: make(map[string]role)}
	receipt := m.RuntimePolicy.TriggerReceiptPolicy
	for purpose, a := range map[string]policy.Allowed{
		evidence.PurposeTriggerOriginProof:    receipt.OriginProofPolicy.Allowed,
		evidence.PurposeTriggerReceipt:        receipt.Allowed,
		evidence.PurposeRuntimeAttestation:    m.RuntimePolicy.Allowed,
		evidence.PurposeAgentSession:          m.AgentSessionReceiptPolicy.Allowed,
		evidence.PurposePolicyDecision:        m.PolicyDecisionPolicy.Allowed,
		evidence.PurposeActionGrant:           m.GrantPolicy.Allowed,
		evidence.PurposeRequestProof:          m.RequestProofPolicy.Allowed,
		evidence.PurposeSignerCertificate:     m.SignerCertificatePolicy.Allowed,
		evidence.PurposeDeploymentCertificate: m.DeploymentCertificatePolicy.Allowed,
	} {
		d.roles[purpose] = role{purpose, a.AllowedIssuers[0], a.AllowedAudiences[0], newKey(a.AllowedKeyIDs[0] + ":v1")}
	}
	return d
}

var signers = []string{
	evidence.PurposeTriggerOriginProof, evidence.PurposeTriggerReceipt, evidence.PurposePolicyDecision,
	evidence.PurposeActionGrant,
	evidence.PurposeRuntimeAttestation, evidence.PurposeAgentSession, evidence.PurposeRequestProof,
}

func binding() evidence.Binding {
	return evidence.Binding{Subject: "agent:worker-1", Action: "create_post", Resource: "POST /posts",
		ContentHash: must(evidence.HashJSON([]byte(content))), Nonce: "nonce-1"}
}

var custodyClaims = evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator}

func claimsOf[C any](d deployment, k evidence.Kind[C], c C, lifetime int64) string {
	r, ok := d.roles[k.Purpose]
	if !ok {
		r = role{issuer: gateName, audience: gateName}
	}
	k.Stamp(&c, evidence.Registered{Audience: r.audience, Issuer: r.issuer, ID: strings.TrimSuffix(k.Typ, "+jwt") + "-1",
		IssuedAt: at, Expires: at + lifetime}, custodyClaims)
	return canonicalOf(c)
}

// changes are members of claims by typ. What rests on a changed artifact fits it.
type changes map[string]map[string]any

func (d deployment) signed(purpose, typ, payload string, c changes) string {
	return d.roles[purpose].key.token(typ, with(payload, c[typ]))
}

func (d deployment) certificateClaims(r role) string {
	return claimsOf(d, evidence.SignerCertificateKind(), evidence.SignerCertificate{
		KeyCustody: evidence.CustodyExternalMediator, Observed: []string{"keyExportable"}, Purposes: []string{r.purpose},
		SubjectIssuer: r.issuer,
		SubjectKeyID:  r.key.kid, SubjectPublicKey: evidence.EncodePublicKey(r.key.public()),
		SubjectPublicKeyHash: evidence.HashBytes(r.key.public()),
	}, 30*24*3600)
}

func (d deployment) certificate(r role, change map[string]any) string {
	typ := evidence.SignerCertificateKind().Typ
	return d.signed(evidence.PurposeSignerCertificate, typ, d.certificateClaims(r), changes{typ: change})
}

func (d deployment) trust() trustJSON {
	var t trustJSON
	for _, purpose := range []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate} {
		k := d.roles[purpose].key
		t.Roots = append(t.Roots, rootJSON{KeyID: k.kid, Purpose: purpose, Public: evidence.EncodePublicKey(k.public())})
	}
	for _, purpose := range signers {
		t.Certificates = append(t.Certificates, d.certificate(d.roles[purpose], nil))
	}
	m := d.manifest.SignerCertificatePolicy
	t.Signers = signersJSON{
		expectedJSON: expectedJSON{Issuers: m.AllowedIssuers, Audiences: m.AllowedAudiences, KeyIDs: m.AllowedKeyIDs,
			MaxAge:               m.MaxCertificateAgeMs / 1000,
			Custody:              m.AllowedKeyCustody,
			RequireNonExportable: m.RequireNonExportableKey}, DenyAgentAccessible: m.DenyAgentAccessible, DenyUserAccessible: m.
			DenyUserAccessible}
	return t
}

func answers() map[string]string {
	return map[string]string{"t1": evidence.HashBytes([]byte("one")), "t2": evidence.HashBytes([]byte("two"))}
}

func (d deployment) challengeClaims() string {
	const id = "challenge-1"
	var salted []evidence.SaltedAnswer
	for _, task := range []string{"t1", "t2"} {
		salt := "salt-" + task
		salted = append(salted,
			evidence.SaltedAnswer{ID: task, Kind: "route", Salt: salt,
				Hash: evidence.HashBytes([]byte(strings.Join([]string{salt, id, task, answers()[task]}, "\x00")))})
	}
	b := binding()
	return claimsOf(d, evidence.ChallengeTokenKind(),
		evidence.ChallengeToken{Answers: salted, Binding: &b, BindingHash: b.Hash(), Difficulty: "lite",
			TasksHash: evidence.HashBytes([]byte("tasks"))}, 30)
}

func gateToken(typ, payload string) string {
	s := must(evidence.NewSecret(secretOf(gateSecret)))
	return token{`{"alg":"HS256","kid":"` + s.KeyID() + `","typ":"` + typ + `"}`, payload,
		macSigner(secretOf(gateSecret))}.String()
}

func (d deployment) originClaims() string {
	return claimsOf(d, evidence.TriggerOriginProofKind(), evidence.TriggerOriginProof{
		BindingHash: binding().Hash(), EventID: "evt_1", EvidenceHash: evidence.HashBytes([]byte("delivery")),
		EvidenceID: "delivery_1",
		Kind:       evidence.TriggerSourceEvent, PayloadHash: evidence.HashBytes([]byte("payload")), Source: "github",
		VerificationMethod: evidence.MethodWebhookSignature,
	}, 60)
}

func (d deployment) receiptClaims(originProof string) string {
	return claimsOf(d, evidence.TriggerReceiptKind(), evidence.TriggerReceipt{
		BindingHash: binding().Hash(), EventID: "evt_1", Kind: evidence.TriggerSourceEvent,
		OriginProofHash: evidence.HashToken(originProof),
		PayloadHash:     evidence.HashBytes([]byte("payload")), Source: "github",
	}, 60)
}

func (d deployment) decisionClaims() string {
	b := binding()
	return claimsOf(d, evidence.PolicyDecisionKind(), evidence.PolicyDecision{
		Action: b.Action, BindingHash: b.Hash(), ChallengeID: "challenge-1", ContentHash: b.ContentHash,
		Decision:        evidence.DecisionAllow,
		EnvironmentHash: d.strict.Runtime.EnvironmentHashes[0], OriginEvidenceHash: evidence.HashBytes([]byte("delivery")),
		OriginEvidenceID:         "delivery_1",
		OriginVerificationMethod: evidence.MethodWebhookSignature, PolicyHash: d.strict.Runtime.PolicyHash,
		Resource: b.Resource, Rule: "posts", RuntimeID: "worker-1",
		Subject: b.Subject, TriggerEventID: "evt_1", TriggerKind: evidence.TriggerSourceEvent, TriggerSource: "github",
	}, 60)
}

func (d deployment) grantClaims(decision string) string {
	b := binding()
	return claimsOf(d, evidence.ActionGrantKind(), evidence.ActionGrant{
		Actions: []string{b.Action}, BindingHashes: []string{b.Hash()}, ContentHashes: []string{b.ContentHash},
		EnvironmentHash:      d.strict.Runtime.EnvironmentHashes[0],
		OriginEvidenceHashes: []string{evidence.HashBytes([]byte("delivery"))}, OriginEvidenceIDs: []string{"delivery_1"},
		OriginVerificationMethods: []string{evidence.MethodWebhookSignature},
		PolicyDecisionHashes:      []string{evidence.HashToken(decision)}, PolicyDecisionIDs: []string{"policy-decision-1"},
		PolicyHash: d.strict.Runtime.PolicyHash,
		Resources:  []string{b.Resource}, RuntimeIDs: []string{"worker-1"}, Subject: b.Subject,
		TriggerEventIDs: []string{"evt_1"}, TriggerSources: []string{"github"},
	}, 60)
}

func (d deployment) attestationClaims(receipt string) string {
	b := binding()
	return claimsOf(d, evidence.RuntimeAttestationKind(), evidence.RuntimeAttestation{
		BindingHash: b.Hash(), ChallengeID: "challenge-1", ContentHash: b.ContentHash,
		EnvironmentHash: d.strict.Runtime.EnvironmentHashes[0], Mode: evidence.ModeAutonomous,
		Observed: []string{"bindingHash", "contentHash"}, PolicyHash: d.strict.Runtime.PolicyHash, RuntimeID: "worker-1",
		Trigger:            evidence.Trigger{ID: "evt_1", Kind: evidence.TriggerSourceEvent, Source: "github"},
		TriggerReceiptHash: evidence.HashToken(receipt),
	}, 60)
}

func (d deployment) sessionClaims() string {
	return claimsOf(d, evidence.SessionReceiptKind(), evidence.SessionReceipt{
		BindingHash: binding().Hash(), ChallengeID: "challenge-1", EnvironmentHash: d.strict.Runtime.EnvironmentHashes[0],
		EventID: "evt_1", InputKind: evidence.TriggerSourceEvent,
		InputSource: "github", PolicyHash: d.strict.Session.PolicyHash, RuntimeID: "worker-1", SessionID: "ses_1",
		TranscriptHash: evidence.HashBytes(nil),
	}, 60)
}

func (d deployment) deploymentClaims() string {
	return claimsOf(d, evidence.DeploymentCertificateKind(), evidence.DeploymentCertificate{
		ControlsHash: d.strict.ControlsHash, DeploymentID: d.strict.DeploymentID, ManifestHash: d.strict.ManifestHash,
		Version: d.manifest.Version,
	}, 24*3600)
}

func (d deployment) envelope(c changes) evidence.Envelope {
	e := evidence.Envelope{
		ChallengeToken: gateToken(evidence.ChallengeTokenKind().Typ,
			with(d.challengeClaims(), c[evidence.ChallengeTokenKind().Typ])),
		Response: evidence.Response{ChallengeID: "challenge-1", Answers: answers()},
		OriginProof: d.signed(evidence.PurposeTriggerOriginProof, evidence.TriggerOriginProofKind().Typ, d.originClaims(),
			c),
		PolicyDecision: d.signed(evidence.PurposePolicyDecision, evidence.PolicyDecisionKind().Typ, d.decisionClaims(), c),
		SessionReceipt: d.signed(evidence.PurposeAgentSession, evidence.SessionReceiptKind().Typ, d.sessionClaims(), c),
	}
	e.DeploymentCertificate = d.signed(evidence.PurposeDeploymentCertificate, evidence.DeploymentCertificateKind().Typ,
		d.deploymentClaims(), c)
	e.TriggerReceipt = d.signed(evidence.PurposeTriggerReceipt, evidence.TriggerReceiptKind().Typ,
		d.receiptClaims(e.OriginProof), c)
	e.Grant = d.signed(evidence.PurposeActionGrant, evidence.ActionGrantKind().Typ, d.grantClaims(e.PolicyDecision), c)
	e.Attestation = d.signed(evidence.PurposeRuntimeAttestation, evidence.RuntimeAttestationKind().Typ,
		d.attestationClaims(e.TriggerReceipt), c)
	return e
}

func (d deployment) capabilityClaims() string {
	return claimsOf(d, evidence.CapabilityKind(), evidence.Capability{
		Binding: binding(), ChallengeID: "challenge-1", DecisionID: "policy-decision-1", GrantID: "action-grant-1",
		VerificationConsumed: true,
		Runtime: &evidence.RuntimeSummary{
			AttestationID: "runtime-attestation-1", EnvironmentHash: d.strict.Runtime.EnvironmentHashes[0], IssuedAt: at,
			Issuer: d.roles[evidence.PurposeRuntimeAttestation].issuer,
			KeyID:  d.roles[evidence.PurposeRuntimeAttestation].key.kid, PolicyHash: d.strict.Runtime.PolicyHash,
			RuntimeID: "worker-1",
			Trigger:   evidence.Trigger{ID: "evt_1", Kind: evidence.TriggerSourceEvent, Source: "github"},
		},
		Session: &evidence.SessionSummary{InputKind: evidence.TriggerSourceEvent, ReceiptID: "agent-session-receipt-1",
			SessionID: "ses_1"},
	}, 15)
}

func (d deployment) proofClaims() string {
	b := binding()
	return claimsOf(d, evidence.RequestProofKind(), evidence.RequestProof{
		AccessTokenHash: evidence.HashBytes([]byte(accessToken)), Action: b.Action, BindingHash: b.Hash(),
		CapabilityID: "capability-1", ContentHash: b.ContentHash,
		Resource: b.Resource, Subject: b.Subject,
	}, 60)
}

func (d deployment) summary(name, member string, value any) map[string]any {
	var claims map[string]any
	mustDo(json.Unmarshal([]byte(d.capabilityClaims()), &claims))
	out := claims[name].(map[string]any)
	out[member] = value
	return out
}
