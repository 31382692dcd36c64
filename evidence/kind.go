package evidence

import (
	"reflect"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence/internal/codec"
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
	PurposeWebBotAuth         = "web_bot_auth" // signs requests to APIs, and no artifact

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
	codec      func() *codec.Codec // made when it is used first: most processes use few kinds
}

type claims[C any] interface {
	*C
	registered() *Registered
}

func newKind[C any, P claims[C]](alg, typ, purpose string, maxLifetime time.Duration) Kind[C] {
	k := kindOf[C, P](alg, typ, purpose, maxLifetime)
	k.check = func(c *C) error {
		if own, ok := any(c).(interface{ check() error }); ok {
			if err := own.check(); err != nil {
				return err
			}
		}
		return k.codec().Check(typ, c)
	}
	return k
}

// NewKind makes the kind of an artifact whose claims another package defines. The struct embeds [Registered], and
// [KeyClaims] if it describes its key; see package codec for its fields. If check fails, the claims are refused as
// artifact_malformed.
func NewKind[C any, P claims[C]](typ, purpose string, maxLifetime time.Duration, check func(*C) error) Kind[C] {
	k := kindOf[C, P](algEdDSA, typ, purpose, maxLifetime)
	k.check = func(c *C) error {
		if err := check(c); err != nil {
			return refusal.New("artifact_malformed", "the %s: %w", typ, err)
		}
		return nil
	}
	return k
}

func kindOf[C any, P claims[C]](alg, typ, purpose string, maxLifetime time.Duration) Kind[C] {
	k := Kind[C]{
		Typ: typ, Purpose: purpose, MaxLifetime: maxLifetime, alg: alg, maxToken: maxToken,
		codec:      sync.OnceValue(func() *codec.Codec { return codec.New(reflect.TypeFor[C]()) }),
		registered: func(c *C) *Registered { return P(c).registered() },
	}
	if _, ok := any(P(nil)).(interface{ keyClaims() *KeyClaims }); ok {
		k.custody = func(c *C) *KeyClaims { return any(c).(interface{ keyClaims() *KeyClaims }).keyClaims() }
	}
	return k
}

func (k Kind[C]) rooted() bool { return isRoot(k.Purpose) }

func isRoot(purpose string) bool {
	return purpose == PurposeSignerCertificate || purpose == PurposeDeploymentCertificate || purpose == PurposeArbiter
}

// Stamp fills the registered claims, and those about the key if there are any.
func (k Kind[C]) Stamp(c *C, r Registered, key KeyClaims) {
	*k.registered(c) = r
	if k.custody != nil {
		*k.custody(c) = key
	}
}

// Registered returns c's iss, aud, iat, exp and jti.
func (k Kind[C]) Registered(c C) Registered { return *k.registered(&c) }

const (
	shortLived = 10 * time.Minute
	longLived  = 400 * 24 * time.Hour
)

// Other packages get the kinds from functions, so that none can replace one.
var (
	triggerOriginProof = newKind[TriggerOriginProof](algEdDSA, "trigger-origin-proof+jwt", PurposeTriggerOriginProof,
		shortLived)
	triggerReceipt     = newKind[TriggerReceipt](algEdDSA, "trigger-receipt+jwt", PurposeTriggerReceipt, shortLived)
	runtimeAttestation = orSecret(newKind[RuntimeAttestation](algEdDSA, "runtime-attestation+jwt",
		PurposeRuntimeAttestation, shortLived))
	sessionReceipt = newKind[SessionReceipt](algEdDSA, "agent-session-receipt+jwt", PurposeAgentSession, shortLived)
	policyDecision = newKind[PolicyDecision](algEdDSA, "policy-decision+jwt", PurposePolicyDecision, shortLived)
	actionGrant    = newKind[ActionGrant](algEdDSA, "action-grant+jwt", PurposeActionGrant, shortLived)
	requestProof   = newKind[RequestProof](algEdDSA, "request-proof+jwt", PurposeRequestProof, shortLived)

	signerCertificate = newKind[SignerCertificate](algEdDSA, "signer-custody-certificate+jwt",
		PurposeSignerCertificate, longLived)
	deploymentCertificate = newKind[DeploymentCertificate](algEdDSA, "deployment-certificate+jwt",
		PurposeDeploymentCertificate, longLived)
	revocationList = upTo(MaxRevocations, newKind[RevocationList](algEdDSA, "revocation-list+jwt",
		PurposeSignerCertificate, longLived))

	// A verifier's tokens to itself.
	challengeToken = newKind[ChallengeToken](algHS256, "challenge+jwt", "challenge", shortLived)
	capability     = newKind[Capability](algHS256, "capability+jwt", "capability", shortLived)
)

// orSecret also allows a shared secret (seed: runtimeAttestationSecret).
func orSecret[C any](k Kind[C]) Kind[C] {
	k.shared = true
	return k
}

func upTo[C any](size int, k Kind[C]) Kind[C] {
	k.maxToken = size
	return k
}

// Functions return the kinds, so that no other package can change them.
func TriggerOriginProofKind() Kind[TriggerOriginProof]       { return triggerOriginProof }
func TriggerReceiptKind() Kind[TriggerReceipt]               { return triggerReceipt }
func RuntimeAttestationKind() Kind[RuntimeAttestation]       { return runtimeAttestation }
func SessionReceiptKind() Kind[SessionReceipt]               { return sessionReceipt }
func PolicyDecisionKind() Kind[PolicyDecision]               { return policyDecision }
func ActionGrantKind() Kind[ActionGrant]                     { return actionGrant }
func RequestProofKind() Kind[RequestProof]                   { return requestProof }
func SignerCertificateKind() Kind[SignerCertificate]         { return signerCertificate }
func DeploymentCertificateKind() Kind[DeploymentCertificate] { return deploymentCertificate }
func RevocationListKind() Kind[RevocationList]               { return revocationList }
func ChallengeTokenKind() Kind[ChallengeToken]               { return challengeToken }
func CapabilityKind() Kind[Capability]                       { return capability }
