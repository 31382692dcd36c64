package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

// certifier makes trust bundles for a process with one role.
type certifier struct {
	*Process
	root, key *custody.Memory
}

func newCertifier(t *testing.T) certifier {
	t.Helper()
	root, err := custody.NewMemory("registry")
	check.Must(t, err)
	key, err := custody.NewMemory("key")
	check.Must(t, err)
	by, err := root.Current(t.Context())
	check.Must(t, err)
	p := &Process{Log: zap.NewNop(), Roles: []Role{{Purpose: evidence.PurposeRequestProof, Issuer: "issuer",
		Key: signer.NewRotation(key, 0, time.Now)}}}
	p.Roots = []evidence.Root{{KeyID: by.KeyID(), Purpose: evidence.PurposeSignerCertificate, Public: by.Public()}}
	return certifier{p, root, key}
}

// bundle has certificates of versions of the key that last for lifetime, or revocations.
func (c certifier) bundle(t *testing.T, lifetime time.Duration, versions []custody.Version,
	revoked ...custody.Version) (b evidence.Bundle) {
	t.Helper()
	o := signer.Options{Issuer: "registry", Audience: "audience", Lifetime: lifetime, Now: time.Now}
	i, err := signer.New(evidence.SignerCertificateKind(), c.root, o)
	check.Must(t, err)
	for _, v := range versions {
		token, _, err := i.Sign(t.Context(), evidence.SignerCertificate{KeyCustody: custody.ExternalMediator,
			Purposes: []string{evidence.PurposeRequestProof}, SubjectIssuer: "issuer", SubjectKeyID: v.KeyID(),
			SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public())})
		check.Must(t, err)
		b.Certificates = append(b.Certificates, token)
	}
	if len(revoked) == 0 {
		return b
	}
	var list evidence.RevocationList
	for _, v := range revoked {
		list.Revoked = append(list.Revoked, evidence.Revocation{Expires: time.Now().Add(lifetime).Unix(), ID: v.KeyID(),
			Kind: evidence.RevokedKey, Reason: "test"})
	}
	lists, err := signer.New(evidence.RevocationListKind(), c.root, o)
	check.Must(t, err)
	b.Revocations, _, err = lists.Sign(t.Context(), list)
	check.Must(t, err)
	return b
}

// TestLack: a process registers out of turn if none of its certificates lasts until its turn, and another could.
func TestLack(t *testing.T) {
	c := newCertifier(t)
	check.Must(t, c.key.Rotate())
	all, err := c.key.Versions(t.Context())
	check.Must(t, err)
	r := &registration{p: c.Process}
	r.again.Store(time.Now().Add(6 * time.Hour).Unix())
	for name, tt := range map[string]struct {
		bundle evidence.Bundle
		want   bool
	}{
		"lost":                                  {c.bundle(t, 24*time.Hour, nil), true},
		"one of before the rotation":            {c.bundle(t, 24*time.Hour, all[:1]), false},
		"one that ends before":                  {c.bundle(t, time.Hour, all), true},
		"revoked one of before, later one lost": {c.bundle(t, 24*time.Hour, all[:1], all[0]), true},
		"both revoked":                          {c.bundle(t, 24*time.Hour, all, all...), false},
		"earlier one revoked":                   {c.bundle(t, 24*time.Hour, all, all[0]), false},
	} {
		trust, err := evidence.NewTrust(c.Roots, tt.bundle, evidence.SignerPolicy{})
		check.Must(t, err)
		if got := r.lack(t.Context(), trust, c.Roles[0]); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestPutBack: a process is ready again once it has the bundle by which it signs, also if it had another meanwhile.
func TestPutBack(t *testing.T) {
	c := newCertifier(t)
	all, err := c.key.Versions(t.Context())
	check.Must(t, err)
	path := filepath.Join(t.TempDir(), "trust.json")
	follow := func(b evidence.Bundle) error {
		raw, err := json.Marshal(b)
		check.Must(t, err, os.WriteFile(path, raw, 0o600))
		return c.followBundle(t.Context(), path)
	}
	good, other := c.bundle(t, time.Hour, all), evidence.Bundle{Certificates: []string{}}
	check.Must(t, follow(good), c.signs(t.Context()))
	if follow(other) == nil || c.signs(t.Context()) == nil {
		t.Error("a process whose keys are not certified is ready")
	}
	check.Must(t, follow(good), c.signs(t.Context()))
}
