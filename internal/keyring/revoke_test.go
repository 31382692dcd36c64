package keyring_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

func newRevoking(t *testing.T) *team {
	t.Helper()
	m := newTeam(t)
	m.tick = time.Second
	return m
}

func (m *team) revokeAll(reason string, ids ...string) error {
	var add []evidence.Revocation
	for _, id := range ids {
		add = append(add, evidence.Revocation{Kind: evidence.RevokedKey, ID: id, Reason: reason,
			Expires: m.now.Add(400 * 24 * time.Hour).Unix()})
	}
	_, err := m.registry.Revoke(m.t.Context(), add, func(string) {})
	return err
}

func (m *team) read() evidence.Bundle {
	m.t.Helper()
	b, _, err := archive.ReadAnyBundle(m.bundle)
	check.Must(m.t, err)
	return b
}

func (m *team) demanding(b evidence.Bundle) *evidence.Trust {
	m.t.Helper()
	return m.trust(b, evidence.SignerPolicy{MaxRevocationAge: time.Hour, Expected: evidence.Expected{
		Issuers: []string{"key-registry"}, Audiences: []string{"posting-api"}, KeyIDs: []string{m.root.KeyID()},
		MaxAge: 400 * 24 * time.Hour,
	}})
}

func (m *team) revoked(b evidence.Bundle, kids ...string) (refused []string) {
	m.t.Helper()
	v, err := evidence.NewVerifier(m.demanding(b), evidence.VerifierOptions{Now: func() time.Time { return m.now }})
	check.Must(m.t, err)
	for _, kid := range kids {
		if v.NotRevoked("attestation", kid) != nil {
			refused = append(refused, kid)
		}
	}
	return refused
}

// TestHistoryListIsNoBundleList puts the newest list of the history in the place of the bundle's. It is fresh, and
// lacks the earlier revocations.
func TestHistoryListIsNoBundleList(t *testing.T) {
	m := newRevoking(t)
	m.revoke("runtime-key:v1")
	m.now = m.now.Add(100 * 24 * time.Hour)
	m.revoke("grant-key:v1")
	b := m.read()
	h, _, err := archive.ReadHistory(m.bundle, b)
	if err != nil || len(h.Revocations) != 2 {
		t.Fatalf("%d lists, %v", len(h.Revocations), err)
	}
	stolen := b
	stolen.Revocations = h.Revocations[1]
	kids := []string{"runtime-key:v1", "session-key:v1"}
	if got := m.revoked(stolen, kids...); !slices.Equal(got, kids) {
		t.Errorf("by a list without the revocation of runtime-key:v1, of %q only %q are refused", kids, got)
	}
	if got := m.revoked(b, kids...); !slices.Equal(got, kids[:1]) {
		t.Errorf("by the bundle's list %q are refused", got)
	}
	if m.demanding(stolen).Succeeds(m.demanding(b)) == nil {
		t.Error("the history's list replaces the bundle's")
	}
}

// TestOthersHoldNoLock: a user who can read the bundle's folder, such as an agent, cannot lock the bundle.
func TestOthersHoldNoLock(t *testing.T) {
	m := newRevoking(t)
	m.certify(0)
	dir, err := os.Open(filepath.Dir(m.bundle))
	check.Must(t, err)
	defer dir.Close()
	check.Must(t, syscall.Flock(int(dir.Fd()), syscall.LOCK_EX))
	files, err := filepath.Glob(m.bundle + "*")
	check.Must(t, err)
	for _, name := range files {
		info, err := os.Stat(name)
		check.Must(t, err)
		if info.Mode().Perm()&0o004 == 0 {
			continue
		}
		f, err := os.Open(name)
		check.Must(t, err)
		defer f.Close()
		check.Must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_SH))
	}
	m.revoke("runtime-key:v1")
}

// Until the list is full it keeps all versions, also retired ones: otherwise a bundle with a retired version's
// certificate and without the later one's would bring the version back.
func TestLongRevocationList(t *testing.T) {
	m := newRevoking(t)
	m.certify(0)
	c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), m.read().Certificates[0])
	check.Must(t, err)
	issuer, err := signer.New(evidence.SignerCertificateKind(), m.registry.Key, m.registry.Options)
	check.Must(t, err)
	c.SubjectKeyID = "runtime-key:v9999"
	latest, _, err := issuer.Sign(t.Context(), c)
	check.Must(t, err)
	check.Must(t, keyring.UpdateBundle(m.bundle, func(b *evidence.Bundle) error {
		b.Certificates = []string{latest}
		return nil
	}))
	var all []string
	for full := false; !full; {
		var more []string
		for i := range 200 {
			more = append(more, fmt.Sprintf("runtime-key:v%d", len(all)+i+1))
		}
		err := m.revokeAll("a drill of the security team: "+strings.Repeat("x", 150), more...)
		switch full = errors.Is(err, refusal.New("trust_malformed", "")); {
		case !full && err != nil:
			t.Fatal(err)
		case !full:
			all = append(all, more...)
		}
	}
	if len(all) < 2000 {
		t.Errorf("the list is full after %d versions", len(all))
	}
	forged := evidence.Bundle{Revocations: m.read().Revocations}
	if got := m.revoked(forged, all...); len(got) != len(all) {
		t.Errorf("of %d versions %d are still revoked", len(all), len(got))
	}
	full := m.demanding(m.read())
	check.Must(t, m.revokeAll("stolen", "grant-key"))
	check.Must(t, m.revokeAll("stolen", "runtime-key"))
	check.Must(t, m.demanding(m.read()).Succeeds(full))
	for range 5 { // there is room again
		check.Must(t, m.revokeAll(strings.Repeat("x", 200), all[:100]...))
	}
	all = append(all, "grant-key:v1", "runtime-key:v9999")
	if got := m.revoked(m.read(), all...); len(got) != len(all) {
		t.Errorf("of %d versions %d are revoked by the names of their keys", len(all), len(got))
	}
}

func TestTooManyRevocations(t *testing.T) {
	m := newRevoking(t)
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("key-%d", i))
	}
	check.WantCode(t, m.revokeAll(strings.Repeat("x", 200), names...), "trust_malformed")
	m.revoke("runtime-key:v1")
	if m.revoked(m.read(), "runtime-key:v1") == nil {
		t.Error("a key is not revoked afterwards")
	}
}

// TestRevokeName: the name of a key also revokes the keys that each pod has for itself under it.
func TestRevokeName(t *testing.T) {
	m := newRevoking(t)
	m.certify(0)
	check.Must(t, m.revokeAll("stolen", "runtime-key", "session-key/u1"))
	check.WantEqual(t, m.revoked(m.read(), "runtime-key:v1", "runtime-key/u1:v2", "runtime-keys:v1",
		"session-key/u1:v1",
		"session-key/u2:v1", "session-key:v1"), []string{"runtime-key:v1", "runtime-key/u1:v2", "session-key/u1:v1"})
}
