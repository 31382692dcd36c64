package gate

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// Options configure a [Gate]; all are required.
type Options struct {
	Challenges *challenge.Issuer
	Secret     evidence.Secret
	// iss and aud of the gate's capabilities
	Issuer   string
	Verifier *evidence.Verifier
	Strict   *policy.Strict
}

// Gate stores nothing: its caller consumes the keys. It is safe for concurrent use.
type Gate struct {
	challenges *challenge.Issuer
	secret     evidence.Secret
	issuer     string
	verifier   *evidence.Verifier
	strict     *policy.Strict
	deployment deployment
}

// New requires every option, and a valid Secret.
func New(o Options) (*Gate, error) {
	if o.Challenges == nil || o.Issuer == "" || o.Verifier == nil || o.Strict == nil {
		return nil, errors.New("gate: one of its parts is missing")
	}
	if err := o.Secret.Check(); err != nil {
		return nil, err
	}
	return &Gate{challenges: o.Challenges, secret: o.Secret, issuer: o.Issuer, verifier: o.Verifier,
		strict: o.Strict}, nil
}

// Challenge refuses a malformed binding.
func (g *Gate) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	if err := b.Check(); err != nil {
		return challenge.Challenge{}, err
	}
	return g.challenges.Create(ctx, b)
}

// AdmitRequest is a chain of evidence, not yet verified.
type AdmitRequest struct {
	Envelope evidence.Envelope
	// An API leaves it empty.
	Opened Opened
	// A gate ignores the nonce; a [Client] needs it.
	Binding evidence.Binding
}

// Consume durably marks keys as used for all replicas: all of them or none. It fails if one was used before.
type Consume func(ctx context.Context, keys ...ledger.Key) error

// Admission has only Checks after a refusal.
type Admission struct {
	Capability   string
	CapabilityID string
	BindingHash  string    // with the nonce
	Expires      time.Time // of the capability
	// Keys are not consumed yet. Consume them before the capability leaves the process; or, if this process makes the
	// post, together with the [Authorization]'s keys before it sends the first byte.
	Keys   []ledger.Key
	Checks []ledger.Check // all verifications so far, also after a refusal
}

// Admit verifies the chain and mints a capability. It consumes no key.
func (g *Gate) Admit(ctx context.Context, r AdmitRequest) (Admission, error) {
	r.Binding.Nonce = "" // the challenge's nonce counts
	c := &chain{g: g, envelope: r.Envelope, opened: r.Opened, asked: r.Binding}
	checks, err := c.verify(ctx)
	if err != nil {
		return Admission{Checks: checks}, err
	}
	token, claims, err := challenge.Mint(g.secret,
		evidence.NewRegistered(g.issuer, g.issuer, g.verifier.Now(), g.strict.CapabilityTTL), c.capability())
	if err != nil {
		return Admission{Checks: checks}, err
	}
	return Admission{
		Capability: token, CapabilityID: claims.ID, BindingHash: c.hash, Expires: time.Unix(claims.Expires, 0),
		Keys: c.keys(), Checks: checks,
	}, nil
}

func (c *chain) keys() []ledger.Key {
	key, o := c.g.key, &c.opened
	return append(make([]ledger.Key, 0, 9), // with room for Authorize
		key("challenge", c.work.Registered), key("origin_proof", o.OriginProof.Claims().Registered),
		key("trigger_receipt", o.TriggerReceipt.Claims().Registered),
		key("policy_decision", o.PolicyDecision.Claims().Registered), key("action_grant", o.Grant.Claims().Registered),
		key("runtime_attestation", o.Attestation.Claims().Registered),
		key("session_receipt", o.SessionReceipt.Claims().Registered),
	)
}

func (g *Gate) key(kind string, r evidence.Registered) ledger.Key {
	return ledger.Key{Kind: kind, ID: r.Issuer + " " + r.ID, Expires: g.until(time.Unix(r.Expires, 0))}
}

func (g *Gate) until(exp time.Time) time.Time {
	return exp.Add(max(g.verifier.Skew(), evidence.DefaultSkew)) // the skew for challenges
}

func (c *chain) capability() evidence.Capability {
	a, s := c.opened.Attestation.Claims(), c.opened.SessionReceipt.Claims()
	return evidence.Capability{
		Binding: c.binding, ChallengeID: c.work.ID, DecisionID: c.opened.PolicyDecision.Claims().ID,
		GrantID: c.opened.Grant.Claims().ID, VerificationConsumed: true,
		Runtime: &evidence.RuntimeSummary{
			AttestationID: a.ID, EnvironmentHash: a.EnvironmentHash, IssuedAt: a.IssuedAt, Issuer: a.Issuer,
			KeyID: c.opened.Attestation.KeyID(), PolicyHash: a.PolicyHash, RuntimeID: a.RuntimeID, Trigger: a.Trigger,
		},
		Session: &evidence.SessionSummary{
			AgentEnvironmentUserAccessible: s.AgentEnvironmentUserAccessible,
			HumanOperatorPresent:           s.HumanOperatorPresent,
			HumanPromptPresent:             s.HumanPromptPresent, InputKind: s.InputKind, ReceiptID: s.ID,
			SessionID:       s.SessionID,
			UserShellAccess: s.UserShellAccess,
		},
	}
}

// AuthorizeRequest is a post as it is about to be made.
type AuthorizeRequest struct {
	Capability, RequestProof string
	// signed by this process; an API leaves it empty
	Signed evidence.Opened[evidence.RequestProof]
	// of the request itself
	Binding         evidence.Binding
	AccessTokenHash string
}

// Authorization permits one post, once its keys are consumed.
type Authorization struct {
	// to consume in the transaction that makes the post
	Keys   []ledger.Key
	Claims evidence.Capability
	Checks []ledger.Check

	now func() time.Time // the gate's clock
}

// Authorize verifies a capability and its request proof against the request. It consumes no key.
func (g *Gate) Authorize(_ context.Context, r AuthorizeRequest) (Authorization, error) {
	var out Authorization
	r.Binding.Nonce = ""
	claims, key, err := challenge.VerifyCapability(g.secret, r.Capability, challenge.WantCapability{
		Issuer: g.issuer, Binding: r.Binding, MaxAge: g.strict.MaxCapabilityAge, RequireEvidence: true,
		RequireGrant: true, Runtime: g.runtime(), Now: g.verifier.Now(), Skew: g.verifier.Skew(),
	})
	if err == nil { // revoked since it was minted?
		err = g.verifier.NotRevoked("evidence of the capability", claims.Runtime.KeyID, claims.ID, claims.DecisionID,
			claims.GrantID, claims.Runtime.AttestationID, claims.Session.ReceiptID)
	}
	out.Checks = append(out.Checks, result(checkCapability, err))
	if err != nil {
		return out, err
	}
	proof, err := g.verifyProof(r, claims)
	out.Checks = append(out.Checks, result(CheckProof, err))
	if err != nil {
		return out, err
	}
	out.Claims, out.now = claims, g.verifier.Now
	key.Expires = g.until(key.Expires)
	out.Keys = []ledger.Key{key, g.key("request_proof", proof.Registered)}
	return out, nil
}

func (g *Gate) runtime() *challenge.WantRuntime {
	r := g.strict.Runtime
	ids := r.RuntimeIDs
	if len(ids) == 0 {
		ids = g.strict.Session.RuntimeIDs
	}
	return &challenge.WantRuntime{
		Issuers: r.Issuers, KeyIDs: r.KeyIDs, RuntimeIDs: ids, TriggerKinds: r.TriggerKinds,
		TriggerSources: g.strict.Receipt.Sources,
		PolicyHash:     r.PolicyHash, EnvironmentHashes: r.EnvironmentHashes, MaxAge: r.MaxAge,
	}
}

func (g *Gate) verifyProof(r AuthorizeRequest, capability evidence.Capability) (evidence.RequestProof, error) {
	p, err := open(g, evidence.RequestProofKind(), r.RequestProof, &r.Signed, g.strict.RequestProof)
	if err != nil {
		return p, evidence.Stale(err)
	}
	if subtle.ConstantTimeCompare([]byte(p.AccessTokenHash), []byte(r.AccessTokenHash)) != 1 {
		return p, refusal.New("proof_access_token",
			"the request proof is not for the access token that came with the request")
	}
	return p, proves(p, capability.ID, capability.Binding)
}

func proves(p evidence.RequestProof, capabilityID string, b evidence.Binding) error {
	return all("artifacts_mismatch", "request proof",
		equal{p.CapabilityID, capabilityID, "capability"},
		equal{p.BindingHash, b.Hash(), "binding"},
		equal{p.ContentHash, b.ContentHash, "content"},
		equal{p.Subject, b.Subject, "subject"},
		equal{p.Action, b.Action, "action"},
		equal{p.Resource, b.Resource, "resource"},
	)
}

func result(name string, err error) ledger.Check {
	k := ledger.Check{Name: name, OK: err == nil}
	if err != nil {
		k.Detail = "the verification failed inside"
		var coded interface {
			error
			Code() string
		}
		if errors.As(err, &coded) {
			k.Code, k.Detail = coded.Code(), coded.Error()
		}
	}
	return k
}
