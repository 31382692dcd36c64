package evidence

import (
	"reflect"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Purposes that a signer custody certificate can give a key (mediator.md: trust boundaries).
const (
	PurposeTriggerOriginProof = "trigger_origin_proof"
	PurposeTriggerReceipt     = "trigger_receipt"
	PurposeRuntimeAttestation = "runtime_attestation"
	PurposeAgentSession       = "agent_session"
	PurposeRequestProof       = "request_proof"
	PurposePolicyDecision     = "policy_decision"
	PurposeActionGrant        = "action_grant"
	PurposeInteraction        = "interaction_receipt"
	PurposeStatement          = "agent_statement"
	PurposeAppraiser          = "appraiser"

	// The purposes of pinned root keys. No custody certificate gives them.
	PurposeSignerCertificate     = "signer_certificate"
	PurposeDeploymentCertificate = "deployment_certificate"
	PurposeArbiter               = "dispute_arbiter" // pinned by a node alone
)

// Kind ties the claims C of one artifact to its typ (RFC 8725 section 3.11), to the purpose that its key must be certified
// for, and to the longest lifetime that it may have. A new artifact is one more Kind and its claims, nothing else.
type Kind[C any] struct {
	Typ         string
	Purpose     string
	MaxLifetime time.Duration

	alg        string
	maxToken   int  // bytes
	shared     bool // a secret may stand in for the key, where the verifier's policy names one: see Expected.Secrets
	registered func(*C) *Registered
	check      func(*C) error
	custody    func(*C) *KeyClaims // nil where the claims say nothing of the key
	codec      *codec
}

// claims is what every claims struct offers through its pointer: the embedded Registered gives the first method.
type claims interface {
	registered() *Registered
	check() error
}

func newKind[C any, P interface {
	*C
	claims
}](alg, typ, purpose string, maxLifetime time.Duration) Kind[C] {
	return kindOf[C, P](alg, typ, purpose, maxLifetime, func(c *C) error { return P(c).check() })
}

// NewKind makes the kind of an artifact whose claims are another package's: a struct in which [Registered] is embedded, and [KeyClaims] if
// it says something of its key. Its fields are texts, truth values, numbers (int64, float64), and structs, lists and pointers of these. check
// returns an error for claims that no artifact of the kind may have: they are refused as artifact_malformed, with typ and that error as the
// reason. Their key has to be certified for purpose. NewKind panics for a type of claim that it cannot write.
func NewKind[C any, P interface {
	*C
	registered() *Registered
}](typ, purpose string, maxLifetime time.Duration, check func(*C) error) Kind[C] {
	return kindOf[C, P](algEdDSA, typ, purpose, maxLifetime, func(c *C) error {
		if err := check(c); err != nil {
			return refusal.New("artifact_malformed", "the %s: %w", typ, err)
		}
		return nil
	})
}

func kindOf[C any, P interface {
	*C
	registered() *Registered
}](alg, typ, purpose string, maxLifetime time.Duration, check func(*C) error) Kind[C] {
	k := Kind[C]{
		Typ: typ, Purpose: purpose, MaxLifetime: maxLifetime, alg: alg, maxToken: maxToken, codec: newCodec(reflect.TypeFor[C]()),
		registered: func(c *C) *Registered { return P(c).registered() },
		check:      check,
	}
	if _, ok := any(P(nil)).(interface{ keyClaims() *KeyClaims }); ok {
		k.custody = func(c *C) *KeyClaims { return any(P(c)).(interface{ keyClaims() *KeyClaims }).keyClaims() }
	}
	return k
}

// rooted reports whether a pinned root key signs artifacts of this kind, and so may sign them twice.
func (k Kind[C]) rooted() bool {
	return isRoot(k.Purpose)
}

// isRoot reports whether a purpose is one of pinned root keys.
func isRoot(purpose string) bool {
	return purpose == PurposeSignerCertificate || purpose == PurposeDeploymentCertificate || purpose == PurposeArbiter
}

// upTo returns the kind with another bound on its size, in bytes.
func (k Kind[C]) upTo(size int) Kind[C] {
	k.maxToken = size
	return k
}

// orSecret returns the kind with shared set.
func (k Kind[C]) orSecret() Kind[C] {
	k.shared = true
	return k
}

// Stamp fills the claims that the signer answers for: the registered ones and, where the artifact has them, those about the key.
func (k Kind[C]) Stamp(c *C, r Registered, key KeyClaims) {
	*k.registered(c) = r
	if k.custody != nil {
		*k.custody(c) = key
	}
}

// Registered returns the registered claims of c.
func (k Kind[C]) Registered(c C) Registered { return *k.registered(&c) }

const (
	shortLived = 10 * time.Minute
	longLived  = 400 * 24 * time.Hour
)

// The artifacts. Their claims bear the names that the seed gives them.
var (
	TriggerOriginProofKind    = newKind[TriggerOriginProof](algEdDSA, "trigger-origin-proof+jwt", PurposeTriggerOriginProof, shortLived)
	TriggerReceiptKind        = newKind[TriggerReceipt](algEdDSA, "trigger-receipt+jwt", PurposeTriggerReceipt, shortLived)
	RuntimeAttestationKind    = newKind[RuntimeAttestation](algEdDSA, "runtime-attestation+jwt", PurposeRuntimeAttestation, shortLived).orSecret() // seed: runtimeAttestationSecret
	SessionReceiptKind        = newKind[SessionReceipt](algEdDSA, "agent-session-receipt+jwt", PurposeAgentSession, shortLived)
	PolicyDecisionKind        = newKind[PolicyDecision](algEdDSA, "policy-decision+jwt", PurposePolicyDecision, shortLived)
	ActionGrantKind           = newKind[ActionGrant](algEdDSA, "action-grant+jwt", PurposeActionGrant, shortLived)
	RequestProofKind          = newKind[RequestProof](algEdDSA, "request-proof+jwt", PurposeRequestProof, shortLived)
	SignerCertificateKind     = newKind[SignerCertificate](algEdDSA, "signer-custody-certificate+jwt", PurposeSignerCertificate, longLived)
	DeploymentCertificateKind = newKind[DeploymentCertificate](algEdDSA, "deployment-certificate+jwt", PurposeDeploymentCertificate, longLived)
	RevocationListKind        = newKind[RevocationList](algEdDSA, "revocation-list+jwt", PurposeSignerCertificate, longLived).upTo(MaxRevocations)

	// The two tokens of a verifier to itself: authenticated with its own secret (RFC 7518 section 3.2), never shown to another verifier.
	ChallengeTokenKind = newKind[ChallengeToken](algHS256, "challenge+jwt", "challenge", shortLived)
	CapabilityKind     = newKind[Capability](algHS256, "capability+jwt", "capability", shortLived)
)
