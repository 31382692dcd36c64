package keyring_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/signer"
)

// TestHistoryListIsNoBundleList puts the newest list of the history in the place of the bundle's. It is fresh, and
// lacks what was revoked before.
func TestHistoryListIsNoBundleList(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	root, _, err := keyring.GenerateRoot("registry", false)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trust.json")
	registry := keyring.NewRegistry(root,
		signer.Options{Issuer: "key-registry", Audience: "posting-api", Lifetime: 30 * 24 * time.Hour,
			Now: func() time.Time { now = now.Add(time.Second); return now }}, path)
	revoke := func(kid string) {
		t.Helper()
		_, err := registry.Revoke(t.Context(), []evidence.Revocation{{Kind: evidence.RevokedKey, ID: kid, Reason: "stolen",
			Expires: now.Add(400 * 24 * time.Hour).Unix()}}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
	}
	revoke("runtime-key:v1")
	now = now.Add(100 * 24 * time.Hour)
	revoke("grant-key:v1")

	b, _, err := archive.ReadAnyBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := archive.ReadHistory(path, b)
	if err != nil || len(h.Revocations) != 2 {
		t.Fatalf("%d lists, %v", len(h.Revocations), err)
	}
	whole, stolen := b, b
	stolen.Revocations = h.Revocations[1]
	policy := evidence.SignerPolicy{MaxRevocationAge: time.Hour, Expected: evidence.Expected{
		Issuers: []string{"key-registry"}, Audiences: []string{"posting-api"}, KeyIDs: []string{root.KeyID()},
		MaxAge: 400 * 24 * time.Hour,
	}}
	trust := func(b evidence.Bundle) *evidence.Trust {
		t.Helper()
		made, err := evidence.NewTrust([]evidence.Root{root.Pinned(evidence.PurposeSignerCertificate)}, b, policy)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for _, kid := range []string{"runtime-key:v1", "session-key:v1"} {
		v, err := evidence.NewVerifier(trust(stolen), evidence.VerifierOptions{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		if v.NotRevoked("attestation", kid) == nil {
			t.Errorf("a list without the revocation of runtime-key:v1 says that %s is not revoked", kid)
		}
		v.SetTrust(trust(whole))
		if err := v.NotRevoked("attestation", kid); (err == nil) != (kid == "session-key:v1") {
			t.Errorf("%s by the bundle's list: %v", kid, err)
		}
	}
	if trust(stolen).Succeeds(trust(whole)) == nil {
		t.Error("the history's list replaces the bundle's")
	}
}
