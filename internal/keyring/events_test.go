package keyring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/signer"
)

// TestEvents rotates, renews, retires and revokes a key, and asks who did what, and when.
func TestEvents(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root, _, err := keyring.GenerateRoot("registry", false)
	must(err)
	dir := t.TempDir()
	path, public := filepath.Join(dir, "trust.json"), filepath.Join(dir, "registry.jwk")
	raw, err := root.JWK()
	must(err)
	must(os.WriteFile(public, raw, 0o600))
	registry := keyring.NewRegistry(root,
		signer.Options{Issuer: "key-registry", Audience: "posting-api", Lifetime: 30 * 24 * time.Hour, Now: func() time.Time {
			return now
		}}, path)
	key, err := custody.NewMemory("runtime-key")
	must(err)
	retired := 0
	certify := func() {
		t.Helper()
		set, err := custody.JWKS(t.Context(), key)
		must(err)
		_, err = registry.Certify(t.Context(),
			keyring.Published{Publication: keyring.Publication{Roles: []daemon.RoleDocument{{
				Purpose: evidence.PurposeRuntimeAttestation, Issuer: "mediator-runtime", KeyCustody: custody.ExternalMediator,
				Keys: set.Keys[retired:],
			}}}}, keyring.Declaration{})
		must(err)
	}
	revoke := func(id string) {
		t.Helper()
		_, err := registry.Revoke(t.Context(),
			[]evidence.Revocation{
				{Kind: evidence.RevokedKey, ID: id, Reason: "stolen",
					Expires: now.Add(400 * 24 * time.Hour).Unix()}}, func(string) {})
		must(err)
	}
	certify()
	now = now.Add(24 * time.Hour)
	err = key.Rotate()
	must(err)
	certify()
	now = now.Add(24 * time.Hour)
	retired = 1
	certify()
	now = now.Add(24 * time.Hour)
	revoke("runtime-key:v1")
	books, err := keyring.ReadBooks(public, path, now)
	must(err)
	var got []string
	for _, e := range books.Events() {
		got = append(got, fmt.Sprint(e.Time.Format("01-02 "), e.Change, " ", e.KeyID, " ", e.By, " ", e.Reason))
	}
	want := []string{
		"11-21 certified runtime-key:v1 key-registry ", "11-22 certified runtime-key:v2 key-registry ",
		"11-23 retired runtime-key:v1 key-registry ",
		"11-24 revoked runtime-key:v1 key-registry stolen",
	}
	if !slices.Equal(got, want) {
		text, _ := json.MarshalIndent(books.Events(), "", " ")
		t.Errorf("got %q, want %q\n%s", got, want, text)
	}
}
