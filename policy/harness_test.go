package policy_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// start is when every test takes place: a Saturday.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return start }

// world is a deployment of the example manifest: keys and trust.
type world struct {
	t        testing.TB
	manifest *policy.Manifest
	strict   *policy.Strict
	keys     map[string]*custody.Memory
	verifier *evidence.Verifier
}

// roles are keys that the registry certifies.
var roles = []struct{ key, issuer, purpose string }{
	{"policy-decision-key", "mediator-policy", evidence.PurposePolicyDecision},
	{"action-grant-key", "mediator-authorization", evidence.PurposeActionGrant},
}

// newWorld makes a world; edit may change the example manifest.
func newWorld(t testing.TB, edit func(*policy.Manifest)) *world {
	t.Helper()
	w := &world{t: t, manifest: example(t), keys: make(map[string]*custody.Memory)}
	if edit != nil {
		edit(w.manifest)
	}
	var err error
	w.strict, err = w.manifest.Strict()
	must(t, err)

	registry, auditor := w.key("registry"), w.key("auditor")
	var certificates []string
	for _, r := range roles {
		v := current(t, w.key(r.key))
		token, _, err := issuer(t, evidence.SignerCertificateKind, registry, "key-registry", "posting-api", time.Hour).Sign(t.Context(), evidence.SignerCertificate{
			KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{r.purpose}, SubjectIssuer: r.issuer, SubjectKeyID: v.KeyID(),
			SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
		})
		must(t, err)
		certificates = append(certificates, token)
	}
	trust, err := evidence.NewTrust([]evidence.Root{
		{KeyID: "registry:v1", Public: current(t, registry).Public(), Purpose: evidence.PurposeSignerCertificate},
		{KeyID: "auditor:v1", Public: current(t, auditor).Public(), Purpose: evidence.PurposeDeploymentCertificate},
	}, evidence.Bundle{Certificates: certificates}, w.strict.Signers)
	must(t, err)
	w.verifier, err = evidence.NewVerifier(trust, evidence.VerifierOptions{Now: clock})
	must(t, err)
	return w
}

func (w *world) key(name string) *custody.Memory {
	k, err := custody.NewMemory(name)
	must(w.t, err)
	w.keys[name] = k
	return k
}

func issuer[C any](t testing.TB, kind evidence.Kind[C], key signer.Key, name, audience string, lifetime time.Duration) *signer.Issuer[C] {
	t.Helper()
	i, err := signer.New(kind, key, signer.Options{Issuer: name, Audience: audience, Lifetime: lifetime, Now: clock})
	must(t, err)
	return i
}

func current(t testing.TB, k *custody.Memory) custody.Version {
	t.Helper()
	v, err := k.Current(t.Context())
	must(t, err)
	return v
}

func example(t testing.TB) *policy.Manifest {
	t.Helper()
	m, err := policy.ParseManifest(configs.Manifest())
	must(t, err)
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantEqual(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// wantCode demands that err is a refusal with exactly this code, and that its sentence holds each of the texts.
func wantCode(t testing.TB, err error, code string, texts ...string) {
	t.Helper()
	var coded interface {
		error
		Code() string
	}
	if !errors.As(err, &coded) || coded.Code() != code {
		t.Fatalf("got %v, want a refusal with code %s", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the sentence lacks %q:\n%v", text, err)
		}
	}
}
