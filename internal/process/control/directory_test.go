package control

import (
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestDirectory: every certified version of an allowed key is published, and none that is revoked, of another directory
// or another purpose.
func TestDirectory(t *testing.T) {
	k := gatetest.New(t, gatetest.Signing)
	const purpose, issuer = evidence.PurposeWebBotAuth, "https://agents.example.com"
	var certificates []string
	keys := make(map[string]ed25519.PublicKey)
	certify := func(name, purpose, issuer string, versions int) {
		key, err := custody.NewMemory(name)
		check.Must(t, err)
		for range versions - 1 {
			check.Must(t, key.Rotate())
		}
		all, err := key.Versions(t.Context())
		check.Must(t, err)
		for _, v := range all {
			keys[v.KeyID()] = ed25519.PublicKey(v.Public())
			certificates = append(certificates, k.Vouch(t, v, purpose, issuer))
		}
	}
	certify("web-bot-auth-key", purpose, issuer, 3)
	certify("other-key", purpose, issuer, 1)
	published := func() (kids []string) {
		verifier, err := evidence.NewVerifier(k.Trust(t, certificates...),
			evidence.VerifierOptions{Now: k.Clock.Now, Skew: time.Second})
		check.Must(t, err)
		d := directory(&daemon.TrustFollower{Strict: k.Strict, Verifier: verifier})
		if d.MaxAge != time.Minute {
			t.Errorf("it may be kept for %s", d.MaxAge)
		}
		for _, key := range d.Keys {
			for kid, known := range keys {
				if known.Equal(key) {
					kids = append(kids, kid)
				}
			}
		}
		return kids
	}
	want := func(kids ...string) {
		t.Helper()
		if got := published(); !slices.Equal(got, kids) {
			t.Errorf("it publishes %v, want %v", got, kids)
		}
	}
	want("web-bot-auth-key:v3", "web-bot-auth-key:v2", "web-bot-auth-key:v1")
	k.Revoke(t, evidence.Revocation{ID: "web-bot-auth-key:v2", Kind: evidence.RevokedKey})
	want("web-bot-auth-key:v3", "web-bot-auth-key:v1")
	certificates = nil
	certify("web-bot-auth-key", purpose, "https://other.example.com", 1)
	want()
	certificates = nil
	certify("web-bot-auth-key", evidence.PurposeRequestProof, issuer, 1)
	want()
}
