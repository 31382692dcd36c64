package chain

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// TestRegistrarsBundle reads a bundle from a database whose writer has removed a revocation: the bundle here has it.
func TestRegistrarsBundle(t *testing.T) {
	t.Parallel()
	dsn, dir := pgtest.Start(t).Database(t), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	f := &judgeFlags{trust: config.Trust{Registry: in("registry.jwk"), Auditor: in("auditor.jwk"),
		Bundle: in("trust.json")}, earlier: in("earlier")}
	var registry keyring.RootKey
	for _, name := range []string{"auditor", "registry"} {
		key, _, err := keyring.GenerateRoot(name, false)
		check.Must(t, err)
		public, err := key.JWK()
		check.Must(t, errors.Join(err, os.WriteFile(in(name+".jwk"), public, 0o600)))
		registry = key
	}
	before := []byte(`{"certificates":[]}`)
	check.Must(t, os.WriteFile(in("trust.json"), before, 0o600))
	pool, err := postgres.OpenPool(t.Context(), dsn, db.Schema{Name: "actionproof_registrar", Version: 2,
		Tables: `CREATE TABLE files (name text, content bytea)`})
	check.Must(t, err)
	check.Must(t, errors.Join(pool.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO files VALUES ('trust.json', $1)`, before)
		return err
	}), pool.Close()))
	_, err = keyring.NewRegistry(registry, signer.Options{Issuer: "registry", Audience: "verifiers",
		Lifetime: time.Hour,
		Now:      time.Now}, f.trust.Bundle).Revoke(t.Context(),
		[]evidence.Revocation{{Kind: "key", ID: "runtime-key:v1",
			Reason: "stolen", Expires: time.Now().Add(time.Hour).Unix()}}, func(string) {})
	check.Must(t, err)

	c := &cobra.Command{}
	c.SetContext(t.Context())
	for _, known := range []bool{true, false} {
		a, err := f.registrars(c, dsn)
		check.Must(t, err)
		f.done()
		if known == a[0].RevocationsSigned().IsZero() {
			t.Errorf("the revocation is known: %t, want %t", !known, known)
		}
		check.Must(t, os.RemoveAll(in("trust.json")))
	}
}
