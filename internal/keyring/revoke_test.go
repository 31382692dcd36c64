package keyring_test

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/test/check"
)

// TestHistoryListIsNoBundleList puts the newest list of the history in the place of the bundle's. It is fresh, and
// lacks the earlier revocations.
func TestHistoryListIsNoBundleList(t *testing.T) {
	m := newTeam(t)
	m.tick = time.Second
	m.revoke("runtime-key:v1")
	m.now = m.now.Add(100 * 24 * time.Hour)
	m.revoke("grant-key:v1")

	b, _, err := archive.ReadAnyBundle(m.bundle)
	check.Must(t, err)
	h, _, err := archive.ReadHistory(m.bundle, b)
	if err != nil || len(h.Revocations) != 2 {
		t.Fatalf("%d lists, %v", len(h.Revocations), err)
	}
	stolen := b
	stolen.Revocations = h.Revocations[1]
	policy := evidence.SignerPolicy{MaxRevocationAge: time.Hour, Expected: evidence.Expected{
		Issuers: []string{"key-registry"}, Audiences: []string{"posting-api"}, KeyIDs: []string{m.root.KeyID()},
		MaxAge: 400 * 24 * time.Hour,
	}}
	for _, kid := range []string{"runtime-key:v1", "session-key:v1"} {
		v, err := evidence.NewVerifier(m.trust(stolen, policy),
			evidence.VerifierOptions{Now: func() time.Time { return m.now }})
		check.Must(t, err)
		if v.NotRevoked("attestation", kid) == nil {
			t.Errorf("a list without the revocation of runtime-key:v1 says that %s is not revoked", kid)
		}
		v.SetTrust(m.trust(b, policy))
		if err := v.NotRevoked("attestation", kid); (err == nil) != (kid == "session-key:v1") {
			t.Errorf("%s by the bundle's list: %v", kid, err)
		}
	}
	if m.trust(stolen, policy).Succeeds(m.trust(b, policy)) == nil {
		t.Error("the history's list replaces the bundle's")
	}
}
