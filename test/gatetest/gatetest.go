// Package gatetest builds chains of evidence with real keys, and changes exactly one thing of them. A [Plan] changes an
// artifact before those that rest on it are made, so that every hash fits; [Resign] changes it afterwards.
package gatetest

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
)

// Start is the first time of every kit's clock.
var Start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Clock stands still until it is set. It is safe for concurrent use.
type Clock struct{ at atomic.Int64 }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time { return time.Unix(0, c.at.Load()).UTC() }

// Set sets it.
func (c *Clock) Set(t time.Time) { c.at.Store(t.UnixNano()) }

// Advance moves it.
func (c *Clock) Advance(d time.Duration) { c.at.Add(int64(d)) }

// Roles are the purposes of the seven keys that sign a chain.
var Roles = []string{
	evidence.PurposeTriggerOriginProof, evidence.PurposeTriggerReceipt, evidence.PurposePolicyDecision,
	evidence.PurposeActionGrant,
	evidence.PurposeRuntimeAttestation, evidence.PurposeAgentSession, evidence.PurposeRequestProof,
}

// role is what the manifest says of one signer.
type role struct {
	key              *custody.Memory
	issuer, audience string
	lifetime         time.Duration
}

// Kit is one deployment: manifest, certified keys, and a gate. Its methods fail the test.
type Kit struct {
	Clock      *Clock
	Manifest   *policy.Manifest
	Strict     *policy.Strict
	Rules      *decide.Rules
	Secret     evidence.Secret
	Challenges *challenge.Issuer
	Verifier   *evidence.Verifier
	Gate       *gate.Gate
	// Certificates are the custody certificates by purpose.
	Certificates map[string]string
	// Revocations is the revocation list, if there is one.
	Revocations string
	// Deployment is the deployment certificate.
	Deployment string

	roles map[string]role // by purpose, with the two roots'
	posts atomic.Int64    // records that were made
}

// New makes a deployment from the example manifest, edited before its certification.
func New(t testing.TB, edits ...func(*policy.Manifest)) *Kit {
	t.Helper()
	return NewAt(t, Start, edits...)
}

// NewAt is New at another time.
func NewAt(t testing.TB, at time.Time, edits ...func(*policy.Manifest)) *Kit {
	t.Helper()
	k := &Kit{Clock: &Clock{}, Certificates: make(map[string]string)}
	k.Clock.Set(at)
	k.Rules = must(exampleRules())(t)
	k.Manifest = Example(t)
	environment := evidence.HashBytes([]byte("environment"))
	for _, h := range []*string{&k.Manifest.RuntimePolicy.RequiredPolicyHash,
		&k.Manifest.AgentSessionReceiptPolicy.RequiredPolicyHash} {
		*h = k.Rules.Hash()
	}
	for _, h := range []*string{&k.Manifest.RuntimePolicy.RequiredEnvironmentHash,
		&k.Manifest.AgentSessionReceiptPolicy.RequiredEnvironmentHash} {
		*h = environment
	}
	for _, edit := range edits {
		edit(k.Manifest)
	}
	k.Strict = must(k.Manifest.Strict())(t)
	k.makeRoles(t)
	k.Secret = must(evidence.NewSecret([]byte(Secret)))(t)
	for _, purpose := range Roles {
		k.Certificates[purpose] = k.certificate(t, purpose)
	}
	k.Verifier = must(evidence.NewVerifier(k.Trust(t), evidence.VerifierOptions{Now: k.Clock.Now}))(t)
	k.Deployment = k.Certify(t, k.Manifest)
	k.Challenges = must(
		challenge.NewIssuer(k.Secret,
			challenge.Options{Issuer: "gate", Audience: "gate", Difficulty: challenge.Lite, Tasks: 2, Now: k.Clock.Now}))(t)
	k.Gate = must(
		gate.New(gate.Options{Challenges: k.Challenges, Secret: k.Secret, Issuer: "gate", Verifier: k.Verifier,
			Strict: k.Strict}))(t)
	return k
}

// Reading YAML and compiling rules takes longer than the rest of a kit.
var (
	exampleRules = sync.OnceValues(func() (*decide.Rules, error) { return decide.ParseRules(configs.Policy()) })
	exampleText  = sync.OnceValues(func() (string, error) {
		m, err := manifest.Parse(configs.Manifest())
		if err != nil {
			return "", err
		}
		return m.Canonical()
	})
)

// Example returns the example manifest.
func Example(t testing.TB) *policy.Manifest {
	t.Helper()
	return must(policy.ParseManifest([]byte(must(exampleText())(t))))(t)
}

func (k *Kit) makeRoles(t testing.TB) {
	t.Helper()
	m := k.Manifest
	receipt := &m.RuntimePolicy.TriggerReceiptPolicy
	k.roles = make(map[string]role)
	allowed := map[string]policy.Allowed{
		evidence.PurposeTriggerOriginProof:    receipt.OriginProofPolicy.Allowed,
		evidence.PurposeTriggerReceipt:        receipt.Allowed,
		evidence.PurposeRuntimeAttestation:    m.RuntimePolicy.Allowed,
		evidence.PurposeAgentSession:          m.AgentSessionReceiptPolicy.Allowed,
		evidence.PurposePolicyDecision:        m.PolicyDecisionPolicy.Allowed,
		evidence.PurposeActionGrant:           m.GrantPolicy.Allowed,
		evidence.PurposeRequestProof:          m.RequestProofPolicy.Allowed,
		evidence.PurposeSignerCertificate:     m.SignerCertificatePolicy.Allowed,
		evidence.PurposeDeploymentCertificate: m.DeploymentCertificatePolicy.Allowed,
	}
	// in order, so that the same randomness makes the same keys
	for _, purpose := range slices.Sorted(maps.Keys(allowed)) {
		a := allowed[purpose]
		r := role{key: must(custody.NewMemory(a.AllowedKeyIDs[0]))(t), issuer: a.AllowedIssuers[0],
			audience: a.AllowedAudiences[0], lifetime: time.Minute}
		switch purpose {
		case evidence.PurposeSignerCertificate:
			r.lifetime = 30 * 24 * time.Hour
		case evidence.PurposeDeploymentCertificate:
			r.lifetime = 24 * time.Hour
		}
		k.roles[purpose] = r
	}
}

// Options name a role as the manifest does.
func (k *Kit) Options(purpose string) signer.Options {
	r := k.roles[purpose]
	return signer.Options{Issuer: r.issuer, Audience: r.audience, Lifetime: r.lifetime, Now: k.Clock.Now}
}

// Signer makes the issuer of one role.
func Signer[C any](t testing.TB, k *Kit, kind evidence.Kind[C]) *signer.Issuer[C] {
	t.Helper()
	return must(signer.New(kind, k.Custody(kind.Purpose), k.Options(kind.Purpose)))(t)
}

// Custody returns the key of a purpose.
func (k *Kit) Custody(purpose string) *custody.Memory { return k.roles[purpose].key }

// addRole gives the deployment a certified key for a purpose, unless it has one.
func (k *Kit) addRole(t testing.TB, purpose string, a policy.Allowed, lifetime time.Duration) {
	t.Helper()
	if k.Certificates[purpose] != "" {
		return
	}
	k.roles[purpose] = role{key: must(custody.NewMemory(a.AllowedKeyIDs[0]))(t), issuer: a.AllowedIssuers[0],
		audience: a.AllowedAudiences[0], lifetime: lifetime}
	k.Certificates[purpose] = k.certificate(t, purpose)
	k.Verifier.SetTrust(k.Trust(t))
}

func (k *Kit) certificate(t testing.TB, purpose string) string {
	t.Helper()
	return k.Vouch(t, k.Key(t, purpose), purpose, k.roles[purpose].issuer)
}

// Vouch has the registry certify a key for a purpose and an issuer.
func (k *Kit) Vouch(t testing.TB, key custody.Version, purpose, issuer string) string {
	t.Helper()
	token, _, err := Signer(t, k, evidence.SignerCertificateKind()).Sign(context.Background(), evidence.SignerCertificate{
		KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{purpose}, SubjectIssuer: issuer,
		SubjectKeyID:     key.KeyID(),
		SubjectPublicKey: evidence.EncodePublicKey(key.Public()), SubjectPublicKeyHash: evidence.HashBytes(key.Public()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Revoke signs a revocation list for the next trust bundle.
func (k *Kit) Revoke(t testing.TB, entries ...evidence.Revocation) {
	t.Helper()
	for i := range entries {
		entries[i].Expires, entries[i].Reason = k.Clock.Now().Add(time.Hour).Unix(), "stolen"
	}
	token, _, err := Signer(t, k, evidence.RevocationListKind()).Sign(context.Background(),
		evidence.RevocationList{Revoked: append([]evidence.Revocation{}, entries...)})
	if err != nil {
		t.Fatal(err)
	}
	k.Revocations = token
}

// Certify has the auditor certify a manifest.
func (k *Kit) Certify(t testing.TB, m *policy.Manifest) string {
	t.Helper()
	const purpose = evidence.PurposeDeploymentCertificate
	return must(policy.Certify(context.Background(), k.roles[purpose].key, m, k.Options(purpose)))(t)
}

// Key returns the key version that signs for a purpose.
func (k *Kit) Key(t testing.TB, purpose string) custody.Version {
	t.Helper()
	return must(k.roles[purpose].key.Current(context.Background()))(t)
}

// Issuer returns the issuer name of a purpose.
func (k *Kit) Issuer(purpose string) string { return k.roles[purpose].issuer }

// Rotate gives a purpose an uncertified key version.
func (k *Kit) Rotate(t testing.TB, purpose string) {
	t.Helper()
	if err := k.roles[purpose].key.Rotate(); err != nil {
		t.Fatal(err)
	}
}

// ReplaceRegistry gives the key registry another key, which certifies all keys again.
func (k *Kit) ReplaceRegistry(t testing.TB) {
	t.Helper()
	k.Rotate(t, evidence.PurposeSignerCertificate)
	for purpose := range k.Certificates {
		k.Certificates[purpose] = k.certificate(t, purpose)
	}
	k.Verifier.SetTrust(k.Trust(t))
}

// roots are the two roots, as a verifier pins them.
func (k *Kit) roots(t testing.TB) (roots []evidence.Root) {
	t.Helper()
	for _, purpose := range []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate} {
		key := k.Key(t, purpose)
		roots = append(roots, evidence.Root{KeyID: key.KeyID(), Public: key.Public(), Purpose: purpose})
	}
	return roots
}

// Believe makes a bundle of one certificate and returns its refusal.
func (k *Kit) Believe(t testing.TB, certificate string) error {
	t.Helper()
	_, err := evidence.NewTrust(k.roots(t), evidence.Bundle{Certificates: []string{certificate}}, k.Strict.Signers)
	return err
}

// Trust makes a bundle from the kit's and further certificates.
func (k *Kit) Trust(t testing.TB, more ...string) *evidence.Trust {
	t.Helper()
	more = append(more, k.certificates()...)
	return must(
		evidence.NewTrust(k.roots(t), evidence.Bundle{Certificates: more, Revocations: k.Revocations}, k.Strict.Signers))(t)
}

// certificates returns the kit's certificates, in one order.
func (k *Kit) certificates() (all []string) {
	for _, purpose := range append(slices.Clone(Roles), evidence.PurposeInteraction, evidence.PurposeStatement,
		evidence.PurposeAppraiser) {
		if c := k.Certificates[purpose]; c != "" {
			all = append(all, c)
		}
	}
	return all
}

// TrustWithout makes a bundle without the certificate of one purpose.
func (k *Kit) TrustWithout(t testing.TB, purpose string, more ...string) *evidence.Trust {
	t.Helper()
	kept := k.Certificates[purpose]
	k.Certificates[purpose] = ""
	defer func() { k.Certificates[purpose] = kept }()
	return k.Trust(t, more...)
}

// Engine makes the policy engine of the deployment.
func (k *Kit) Engine(t testing.TB) *decide.Engine {
	t.Helper()
	return must(
		decide.NewEngine(k.Rules, k.Verifier, k.Strict, Signer(t, k, evidence.PolicyDecisionKind()),
			Signer(t, k, evidence.ActionGrantKind()),
			decide.EngineOptions{Now: k.Clock.Now, Log: zap.NewNop()}))(t)
}

// Resign signs an artifact again, with other claims as in [Claim]. What rests on it does not change.
func Resign[C any](t testing.TB, k *Kit, kind evidence.Kind[C], token string, pairs ...any) string {
	t.Helper()
	c := must(evidence.UnverifiedClaims(kind, token))(t)
	Set(t, &c, pairs...)
	return must(evidence.Sign(context.Background(), k.Key(t, kind.Purpose), kind, c))(t)
}

// Forge signs any header and payload.
func Forge(t testing.TB, key evidence.Key, header string, payload []byte) string {
	t.Helper()
	b64 := base64.RawURLEncoding
	input := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString(payload)
	return input + "." + b64.EncodeToString(must(key.Sign(context.Background(), []byte(input)))(t))
}

// StrangerKey is an uncertified key under a name that may be certified.
func StrangerKey(t testing.TB, kid string) evidence.Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return stranger{kid, private}
}

type stranger struct {
	kid     string
	private ed25519.PrivateKey
}

func (s stranger) KeyID() string { return s.kid }

func (s stranger) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(s.private, message), nil
}

// must ends the test with err, or returns v.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
