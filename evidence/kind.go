package evidence

import (
	"reflect"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Purposes that a signer custody certificate can certify a key for.
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

	// Purposes of pinned root keys. No certificate can grant them.
	PurposeSignerCertificate     = "signer_certificate"
	PurposeDeploymentCertificate = "deployment_certificate"
	PurposeArbiter               = "dispute_arbiter" // only nodes pin it
)

// Kind ties an artifact's claims C to its typ (RFC 8725 section 3.11), its key's purpose, and its longest lifetime.
type Kind[C any] struct {
	Typ         string
	Purpose     string
	MaxLifetime time.Duration

	alg        string
	maxToken   int  // bytes
	shared     bool // may be authenticated by a shared secret: see Expected.Secrets
	registered func(*C) *Registered
	check      func(*C) error
	custody    func(*C) *KeyClaims // nil if the claims do not describe the key
	codec      *codec
}

func newKind[C any, P interface {
	*C
	registered() *Registered
}](alg, typ, purpose string, maxLifetime time.Duration) Kind[C] {
	codec := newCodec(reflect.TypeFor[C]())
	return kindOf[C, P](alg, typ, purpose, maxLifetime, codec, func(c *C) error {
		if own, ok := any(P(c)).(interface{ check() error }); ok {
			if err := own.check(); err != nil {
				return err
			}
		}
		return codec.check(typ, "", reflect.ValueOf(c).Elem())
	})
}

// NewKind makes the kind of an artifact whose claims another package defines. The struct embeds [Registered], and
// [KeyClaims] if it describes its key. Its fields are strings, bools, int64, float64, and structs, slices and pointers
// of these; NewKind panics for others. If check fails, the claims are refused as artifact_malformed. Keys must be
// certified for purpose.
func NewKind[C any, P interface {
	*C
	registered() *Registered
}](typ, purpose string, maxLifetime time.Duration, check func(*C) error) Kind[C] {
	return kindOf[C, P](algEdDSA, typ, purpose, maxLifetime, newCodec(reflect.TypeFor[C]()), func(c *C) error {
		if err := check(c); err != nil {
			return refusal.New("artifact_malformed", "the %s: %w", typ, err)
		}
		return nil
	})
}

func kindOf[C any, P interface {
	*C
	registered() *Registered
}](alg, typ, purpose string, maxLifetime time.Duration, codec *codec, check func(*C) error) Kind[C] {
	k := Kind[C]{
		Typ: typ, Purpose: purpose, MaxLifetime: maxLifetime, alg: alg, maxToken: maxToken,
		codec:      newCodec(reflect.TypeFor[C]()),
		registered: func(c *C) *Registered { return P(c).registered() },
		check:      check,
	}
	if _, ok := any(P(nil)).(interface{ keyClaims() *KeyClaims }); ok {
		k.custody = func(c *C) *KeyClaims { return any(P(c)).(interface{ keyClaims() *KeyClaims }).keyClaims() }
	}
	return k
}

func (k Kind[C]) rooted() bool {
	return isRoot(k.Purpose)
}

func isRoot(purpose string) bool {
	return purpose == PurposeSignerCertificate || purpose == PurposeDeploymentCertificate || purpose == PurposeArbiter
}

func (k Kind[C]) upTo(size int) Kind[C] {
	k.maxToken = size
	return k
}

func (k Kind[C]) orSecret() Kind[C] {
	k.shared = true
	return k
}

// Stamp fills the claims that the signer vouches for: the registered ones, and those about the key if there are any.
func (k Kind[C]) Stamp(c *C, r Registered, key KeyClaims) {
	*k.registered(c) = r
	if k.custody != nil {
		*k.custody(c) = key
	}
}

func (k Kind[C]) Registered(c C) Registered { return *k.registered(&c) }

const (
	shortLived = 10 * time.Minute
	longLived  = 400 * 24 * time.Hour
)

// The kinds of artifacts. Their claims have the seed's names.
var (
	TriggerOriginProofKind = newKind[TriggerOriginProof](algEdDSA, "trigger-origin-proof+jwt",
		PurposeTriggerOriginProof, shortLived)
	TriggerReceiptKind = newKind[TriggerReceipt](algEdDSA, "trigger-receipt+jwt", PurposeTriggerReceipt, shortLived)
	// seed: runtimeAttestationSecret
	RuntimeAttestationKind = newKind[RuntimeAttestation](algEdDSA, "runtime-attestation+jwt", PurposeRuntimeAttestation,
		shortLived).orSecret()
	SessionReceiptKind = newKind[SessionReceipt](algEdDSA, "agent-session-receipt+jwt", PurposeAgentSession,
		shortLived)
	PolicyDecisionKind    = newKind[PolicyDecision](algEdDSA, "policy-decision+jwt", PurposePolicyDecision, shortLived)
	ActionGrantKind       = newKind[ActionGrant](algEdDSA, "action-grant+jwt", PurposeActionGrant, shortLived)
	RequestProofKind      = newKind[RequestProof](algEdDSA, "request-proof+jwt", PurposeRequestProof, shortLived)
	SignerCertificateKind = newKind[SignerCertificate](algEdDSA, "signer-custody-certificate+jwt",
		PurposeSignerCertificate, longLived)
	DeploymentCertificateKind = newKind[DeploymentCertificate](algEdDSA, "deployment-certificate+jwt",
		PurposeDeploymentCertificate, longLived)
	RevocationListKind = newKind[RevocationList](algEdDSA, "revocation-list+jwt", PurposeSignerCertificate,
		longLived).upTo(MaxRevocations)

	// A verifier's tokens to itself, authenticated with its own secret (RFC 7518 section 3.2).
	ChallengeTokenKind = newKind[ChallengeToken](algHS256, "challenge+jwt", "challenge", shortLived)
	CapabilityKind     = newKind[Capability](algHS256, "capability+jwt", "capability", shortLived)
)
