package keyring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/signer"
)

// TestBundleDoesNotGrow rotates a key again and again, and nobody retires a version of it. The version before stays
// certified for an hour, in which all that it has signed expires.
func TestBundleDoesNotGrow(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	root, _, err := keyring.GenerateRoot("registry", false)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trust.json")
	registry := keyring.NewRegistry(root,
		signer.Options{Issuer: "key-registry", Audience: "posting-api", Lifetime: 30 * 24 * time.Hour, Now: func() time.Time {
			return now
		}}, path)
	key, err := custody.NewMemory("runtime-key")
	if err != nil {
		t.Fatal(err)
	}
	certify := func(want ...string) {
		t.Helper()
		set, err := custody.JWKS(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		p := keyring.Published{Publication: keyring.Publication{Roles: []daemon.RoleDocument{{
			Purpose: evidence.PurposeRuntimeAttestation, Issuer: "mediator-runtime", KeyCustody: custody.ExternalMediator,
			Keys: set.Keys,
		}}}}
		if _, err := registry.Certify(t.Context(), p, keyring.Declaration{}); err != nil {
			t.Fatal(err)
		}
		b, _, err := config.ReadBundle(path)
		if err != nil {
			t.Fatal(err)
		}
		trust, err := evidence.NewTrust([]evidence.Root{root.Pinned(evidence.PurposeSignerCertificate)}, b,
			evidence.SignerPolicy{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]bool)
		for _, c := range trust.Certified() {
			got[c.Certificate.SubjectKeyID] = true
		}
		for _, kid := range want {
			if !got[kid] {
				t.Errorf("%s has no certificate", kid)
			}
		}
		if len(got) != len(want) {
			t.Errorf("certified are %v, want %v", got, want)
		}
	}
	kid := func(n int) string { return fmt.Sprintf("runtime-key:v%d", n) }
	certify(kid(1))
	size := int64(0)
	for n := 2; n < 40; n++ {
		if err := key.Rotate(); err != nil {
			t.Fatal(err)
		}
		certify(kid(n-1), kid(n))
		now = now.Add(59 * time.Minute)
		certify(kid(n-1), kid(n))
		now = now.Add(time.Minute)
		certify(kid(n))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 {
			size = info.Size()
		}
		if info.Size() > size+16 { // the versions' numbers have one digit, and then two
			t.Fatalf("after %d rotations the bundle has %d bytes, and it had %d", n, info.Size(), size)
		}
	}
}
