package vectors_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
)

type artifactVector struct {
	Name     string          `json:"name"`
	Typ      string          `json:"typ"`
	Token    string          `json:"token"`
	Trust    *trustJSON      `json:"trust,omitempty"`
	Expected *expectedJSON   `json:"expected,omitempty"`
	At       int64           `json:"at,omitempty"`
	Verdict  string          `json:"verdict"`
	Claims   json.RawMessage `json:"claims,omitempty"`
}

type artifactsFile struct {
	About    string                  `json:"about"`
	At       int64                   `json:"at"`
	Skew     int64                   `json:"skew"`
	Trust    trustJSON               `json:"trust"`
	Expected map[string]expectedJSON `json:"expected"`
	Vectors  []artifactVector        `json:"vectors,omitempty"`
}

func (f artifactsFile) verify(v artifactVector) string {
	trust, want, now := f.Trust, f.Expected[v.Typ], f.At
	if v.Trust != nil {
		trust = *v.Trust
	}
	if v.Expected != nil {
		want = *v.Expected
	}
	if v.At != 0 {
		now = v.At
	}
	verifier, err := trust.verifier(now)
	if err != nil {
		return codeOf(err)
	}
	return codeOf(open[v.Typ](verifier, v.Token, want, now))
}

type opener func(v *evidence.Verifier, token string, want expectedJSON, now int64) error

func opens[C any](k evidence.Kind[C]) opener {
	return func(v *evidence.Verifier, token string, want expectedJSON, _ int64) error {
		o, err := evidence.Open(v, k, token, want.expected())
		if err != nil {
			return err
		}
		return evidence.Judge(v, k, o, want.expected())
	}
}

func opensOwn[C any](k evidence.Kind[C]) opener {
	return func(_ *evidence.Verifier, token string, want expectedJSON, now int64) error {
		e := want.expected()
		_, err := evidence.OpenMAC(e.Secrets[0], k, token, e, time.Unix(now, 0), evidence.DefaultSkew)
		return err
	}
}

var open = map[string]opener{
	evidence.TriggerOriginProofKind().Typ:    opens(evidence.TriggerOriginProofKind()),
	evidence.TriggerReceiptKind().Typ:        opens(evidence.TriggerReceiptKind()),
	evidence.RuntimeAttestationKind().Typ:    opens(evidence.RuntimeAttestationKind()),
	evidence.SessionReceiptKind().Typ:        opens(evidence.SessionReceiptKind()),
	evidence.PolicyDecisionKind().Typ:        opens(evidence.PolicyDecisionKind()),
	evidence.ActionGrantKind().Typ:           opens(evidence.ActionGrantKind()),
	evidence.RequestProofKind().Typ:          opens(evidence.RequestProofKind()),
	evidence.SignerCertificateKind().Typ:     opens(evidence.SignerCertificateKind()),
	evidence.DeploymentCertificateKind().Typ: opens(evidence.DeploymentCertificateKind()),
	evidence.RevocationListKind().Typ:        opens(evidence.RevocationListKind()),
	evidence.ChallengeTokenKind().Typ:        opensOwn(evidence.ChallengeTokenKind()),
	evidence.CapabilityKind().Typ:            opensOwn(evidence.CapabilityKind()),
	autonomy.Kind.Typ:                        opens(autonomy.Kind),
	interaction.StatementKind.Typ:            opens(interaction.StatementKind),
}

type artifact struct {
	name, typ, purpose string
	role               role
	header, payload    string
	sign               func(string) []byte
	expected           expectedJSON
	text, hash         string
	lifetime           int64
	own                bool
}

func (a artifact) token() string { return token{a.header, a.payload, a.sign}.String() }

func (a artifact) root() bool {
	return a.purpose == evidence.PurposeSignerCertificate || a.purpose == evidence.PurposeDeploymentCertificate
}

func (a artifact) saysCustody() bool {
	return !a.root() && !a.own && strings.Contains(a.payload, `"keyCustody"`)
}

func (d deployment) artifacts() []artifact {
	e := d.envelope(nil)
	protected := []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked}
	short, long := int64(600), int64(400*24*3600)
	signed := func(name, typ, purpose, payload, text, hash string, lifetime int64) artifact {
		r := d.roles[purpose]
		x := expectedJSON{Issuers: []string{r.issuer}, Audiences: []string{r.audience},
			KeyIDs: []string{strings.TrimSuffix(r.key.kid, ":v1")}, MaxAge: 15,
			Custody: protected, RequireNonExportable: true}
		if lifetime == long {
			x.MaxAge, x.Custody, x.RequireNonExportable = 24*3600, nil, false
		}
		return artifact{name: name, typ: typ, purpose: purpose, role: r,
			header: `{"alg":"EdDSA","kid":"` + r.key.kid + `","typ":"` + typ + `"}`, payload: payload,
			sign: r.key.signer(), expected: x, text: text, hash: hash, lifetime: lifetime}
	}
	own := func(name, typ, payload, text, hash string) artifact {
		s := must(evidence.NewSecret(secretOf(gateSecret)))
		return artifact{name: name, typ: typ, role: role{issuer: gateName, audience: gateName},
			header:  `{"alg":"HS256","kid":"` + s.KeyID() + `","typ":"` + typ + `"}`,
			payload: payload, sign: macSigner(secretOf(gateSecret)), text: text, hash: hash, lifetime: short, own: true,
			expected: expectedJSON{Issuers: []string{gateName}, Audiences: []string{gateName}, KeyIDs: []string{s.KeyID()},
				MaxAge: 15, Secrets: []string{b64.EncodeToString(secretOf(gateSecret))}}}
	}
	return []artifact{
		signed("origin proof", evidence.TriggerOriginProofKind().Typ, evidence.PurposeTriggerOriginProof, d.originClaims(),
			"eventId", "payloadHash", short),
		signed("trigger receipt", evidence.TriggerReceiptKind().Typ, evidence.PurposeTriggerReceipt,
			d.receiptClaims(e.OriginProof), "source", "payloadHash", short),
		signed("policy decision", evidence.PolicyDecisionKind().Typ, evidence.PurposePolicyDecision, d.decisionClaims(),
			"rule",
			"policyHash", short),
		signed("action grant", evidence.ActionGrantKind().Typ, evidence.PurposeActionGrant, d.grantClaims(e.PolicyDecision),
			"subject", "policyHash", short),
		signed("runtime attestation", evidence.RuntimeAttestationKind().Typ, evidence.PurposeRuntimeAttestation,
			d.attestationClaims(e.TriggerReceipt), "runtimeId", "bindingHash", short),
		signed("session receipt", evidence.SessionReceiptKind().Typ, evidence.PurposeAgentSession, d.sessionClaims(),
			"sessionId", "transcriptHash", short),
		signed("request proof", evidence.RequestProofKind().Typ, evidence.PurposeRequestProof, d.proofClaims(), "action",
			"accessTokenHash", short),
		signed("custody certificate", evidence.SignerCertificateKind().Typ, evidence.PurposeSignerCertificate,
			d.certificateClaims(d.roles[evidence.PurposeRequestProof]), "subjectIssuer", "subjectPublicKeyHash", long),
		signed("deployment certificate", evidence.DeploymentCertificateKind().Typ, evidence.PurposeDeploymentCertificate,
			d.deploymentClaims(), "deploymentId", "manifestHash", long),
		signed("revocation list", evidence.RevocationListKind().Typ, evidence.PurposeSignerCertificate,
			d.listClaims(revokes(evidence.RevokedKey, "lost-key")), "iss", "", long),
		own("challenge token", evidence.ChallengeTokenKind().Typ, d.challengeClaims(), "difficulty", "tasksHash"),
		own("capability", evidence.CapabilityKind().Typ, d.capabilityClaims(), "challengeId", ""),
	}
}

// thorough are the kinds with every fault: one of a certified key, one of a root, one of a gate to itself.
var thorough = []string{evidence.RequestProofKind().Typ, evidence.DeploymentCertificateKind().Typ,
	evidence.CapabilityKind().Typ}

func oneEach(vectors []artifactVector) []artifactVector {
	seen := make(map[string]bool)
	return slices.DeleteFunc(vectors, func(v artifactVector) bool {
		known := seen[v.Verdict]
		seen[v.Verdict] = true
		return known
	})
}

func (d deployment) artifactsVectors() artifactsFile {
	f := artifactsFile{About: "One token each: see docs/vectors.md, The tokens.", At: at, Skew: 2, Trust: d.trust(),
		Expected: make(map[string]expectedJSON)}
	for _, a := range d.artifacts() {
		f.Expected[a.typ] = a.expected
		faults := slices.Concat(a.valid(), a.formFaults(), a.headerFaults(), d.keyFaults(a), a.claimFaults(),
			a.expectationFaults(), a.timeFaults())
		if !slices.Contains(thorough, a.typ) {
			faults = oneEach(faults)
		}
		faults = append(faults, a.ownFaults()...)
		for _, v := range faults {
			v.Name, v.Typ = a.name+", "+v.Name, a.typ
			f.Vectors = append(f.Vectors, v)
		}
	}
	f.Vectors = slices.Concat(f.Vectors, d.signatureVectors(), d.certificateFaults(), d.revocationVectors(),
		d.sharedVectors(), d.secondVectors(), d.headVectors())
	return f
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}
