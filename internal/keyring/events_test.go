package keyring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/test/check"
)

func TestEvents(t *testing.T) {
	m := newTeam(t)
	public := filepath.Join(t.TempDir(), "registry.jwk")
	raw, err := m.root.JWK()
	check.Must(t, err)
	check.Must(t, os.WriteFile(public, raw, 0o600))
	m.certify(0)
	for _, change := range []func(){
		func() {
			check.Must(t, m.key.Rotate())
			m.certify(0)
		},
		func() { m.certify(1) },
		func() { m.revoke("runtime-key:v1") },
		func() {
			_, err := m.registry.Revoke(t.Context(),
				[]evidence.Revocation{{Kind: evidence.RevokedKey, ID: "runtime-key:v1",
					Reason: "again", Expires: m.now.Add(time.Minute).Unix()}}, func(string) {})
			check.Must(t, err)
		},
	} {
		m.now = m.now.Add(24 * time.Hour)
		change()
	}
	books, err := keyring.ReadBooks(public, m.bundle, m.now)
	check.Must(t, err)
	var got []string
	for _, e := range books.Events() {
		got = append(got, fmt.Sprint(e.Time.Format("01-02 "), e.Change, " ", e.KeyID, " ", e.By, " ", e.Reason))
	}
	check.WantEqual(t, got, []string{
		"11-21 certified runtime-key:v1 key-registry ", "11-22 certified runtime-key:v2 key-registry ",
		"11-23 retired runtime-key:v1 key-registry ", "11-24 revoked runtime-key:v1 key-registry stolen",
		"11-25 revoked runtime-key:v1 key-registry again",
	})
	if all := books.Complete(nil); all[0].Revocation == nil || all[0].Revocation.Reason != "stolen" {
		t.Errorf("%+v", all[0])
	}
}
