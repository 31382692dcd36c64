// Package policytest makes deployments of the example manifest for the tests of policies and decisions.
package policytest

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// Start is when every test takes place: a Saturday.
var Start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Clock stands at Start.
func Clock() time.Time { return Start }

// World is a deployment of the example manifest: keys and trust.
type World struct {
	Manifest *policy.Manifest
	Strict   *policy.Strict
	Keys     map[string]*custody.Memory
	Verifier *evidence.Verifier
}

// roles are the keys that the registry certifies.
var roles = []struct{ key, issuer, purpose string }{
	{"origin-proof-key", "mediator-source-verifier", evidence.PurposeTriggerOriginProof},
	{"trigger-receipt-key", "mediator-trigger", evidence.PurposeTriggerReceipt},
	{"policy-decision-key", "mediator-policy", evidence.PurposePolicyDecision},
	{"action-grant-key", "mediator-authorization", evidence.PurposeActionGrant},
}

// New makes a deployment; edit may change the example manifest.
func New(t testing.TB, edit func(*policy.Manifest)) *World {
	t.Helper()
	w := &World{Manifest: Example(t), Keys: make(map[string]*custody.Memory)}
	if edit != nil {
		edit(w.Manifest)
	}
	var err error
	w.Strict, err = w.Manifest.Strict()
	check.Must(t, err)

	registry, auditor := w.key(t, "registry"), w.key(t, "auditor")
	var certificates []string
	for _, r := range roles {
		v := Current(t, w.key(t, r.key))
		token, _, err := Issuer(t, evidence.SignerCertificateKind(), registry, "key-registry", "posting-api",
			time.Hour).Sign(t.Context(), evidence.SignerCertificate{
			KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{r.purpose}, SubjectIssuer: r.issuer,
			SubjectKeyID:     v.KeyID(),
			SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
		})
		check.Must(t, err)
		certificates = append(certificates, token)
	}
	trust, err := evidence.NewTrust([]evidence.Root{
		{KeyID: "registry:v1", Public: Current(t, registry).Public(), Purpose: evidence.PurposeSignerCertificate},
		{KeyID: "auditor:v1", Public: Current(t, auditor).Public(), Purpose: evidence.PurposeDeploymentCertificate},
	}, evidence.Bundle{Certificates: certificates}, w.Strict.Signers)
	check.Must(t, err)
	w.Verifier, err = evidence.NewVerifier(trust, evidence.VerifierOptions{Now: Clock})
	check.Must(t, err)
	return w
}

func (w *World) key(t testing.TB, name string) *custody.Memory {
	t.Helper()
	k, err := custody.NewMemory(name)
	check.Must(t, err)
	w.Keys[name] = k
	return k
}

// Issuer returns an issuer of a kind of artifact that signs at Clock.
func Issuer[C any](t testing.TB, kind evidence.Kind[C], key signer.Key, name, audience string,
	lifetime time.Duration) *signer.Issuer[C] {
	t.Helper()
	i, err := signer.New(kind, key, signer.Options{Issuer: name, Audience: audience, Lifetime: lifetime, Now: Clock})
	check.Must(t, err)
	return i
}

// Current returns the version of a key that signs.
func Current(t testing.TB, k *custody.Memory) custody.Version {
	t.Helper()
	v, err := k.Current(t.Context())
	check.Must(t, err)
	return v
}

// Example returns the example manifest.
func Example(t testing.TB) *policy.Manifest {
	t.Helper()
	m, err := manifest.Parse(configs.Manifest())
	check.Must(t, err)
	return m
}

// WithAutonomy makes m a manifest whose policy asks for the reputation of agents, and returns it.
func WithAutonomy(m *policy.Manifest) *policy.Manifest {
	gatetest.Autonomous(m)
	return m
}

// WithStatements makes m a manifest of a deployment whose agents publish statements, and returns it.
func WithStatements(m *policy.Manifest) *policy.Manifest {
	gatetest.Speaking(m)
	return m
}
