package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	pool "github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/ledger/internal/tables"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

func TestOpenRefuses(t *testing.T) {
	ctx := context.Background()
	const password = "hunter2"
	for name, tt := range map[string]struct{ dsn, sentence string }{
		"no DSN":                   {"postgres://u:" + password + "@db:port/x", "not a PostgreSQL URL"},
		"another machine, plain":   {"postgres://u:" + password + "@192.0.2.1/x?sslmode=disable", "verify-full"},
		"another machine, perhaps": {"postgres://u:" + password + "@192.0.2.1/x", "verify-full"},
		"another machine, anyone":  {"postgres://u:" + password + "@192.0.2.1/x?sslmode=require", "verify-full"},
		"a name":                   {"postgres://u:" + password + "@localhost/x?sslmode=prefer", "verify-full"},
		"one of two is elsewhere": {"postgres://u:" + password + "@127.0.0.1,192.0.2.1/x?sslmode=disable",
			"192.0.2.1 is not on this machine"},
		"nobody listens":             {"host=/nonexistent user=u password=" + password + " dbname=x", "open"},
		"a server without its fsync": {pgtest.Start(t, "fsync=off").Database(t), "fsync=off"},
	} {
		_, err := postgres.Open(ctx, tt.dsn, options("one"))
		wantUnavailable(t, err, tt.sentence)
		if strings.Contains(fmt.Sprintf("%+v", err), password) {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
	dsn := database(t)
	_, err := postgres.Open(ctx, dsn+"&synchronous_commit=off", options("one"))
	wantUnavailable(t, err, "synchronous_commit=off")
	for _, o := range []postgres.Options{{Instance: "one"}, {Now: ledgertest.Now}} {
		if _, err := postgres.Open(ctx, dsn, o); err == nil {
			t.Errorf("opened with %+v", o)
		}
	}
	// A role whose own default is off gets what the ledger asks for.
	exec(t, dsn,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	if err := open(t, dsn, "one").Consume(ctx, key("a")); err != nil {
		t.Error(err)
	}
	exec(t, dsn, `UPDATE actionproof.schema_version SET version = 99`)
	_, err = postgres.Open(ctx, dsn, options("one"))
	wantUnavailable(t, err, "version 99 and this program needs 6: use the program that made it. "+
		"A new database would forget the records, and which keys are consumed")
}

func newRole(t *testing.T, dsn string) (role, as string) {
	t.Helper()
	role = "r" + strings.ToLower(rand.Text())
	exec(t, dsn, `CREATE ROLE `+role+` LOGIN`)
	return role, strings.Replace(dsn, "user=postgres", "user="+role, 1)
}

func TestLittleRight(t *testing.T) {
	dsn := database(t)
	open(t, dsn, "one")
	role, as := newRole(t, dsn)
	exec(t, dsn, `GRANT USAGE ON SCHEMA actionproof TO `+role+`;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA actionproof TO `+role)
	l := open(t, as, "two")
	if err := errors.Join(l.Begin(context.Background(), post("post_1"), key("a")),
		l.Prune(context.Background(), ledgertest.Now())); err != nil {
		t.Error(err)
	}
}

func TestGivenSchema(t *testing.T) {
	dsn := database(t)
	role, as := newRole(t, dsn)
	_, err := postgres.Open(context.Background(), as, options("one"))
	wantUnavailable(t, err, "needs the privilege CREATE on the database")
	exec(t, dsn, `CREATE SCHEMA actionproof; GRANT USAGE, CREATE ON SCHEMA actionproof TO `+role)
	if err := open(t, as, "one").Begin(context.Background(), post("post_1"), key("a")); err != nil {
		t.Error(err)
	}
}

// TestOpenTogether opens a new database from many processes, and then while one of them prunes.
func TestOpenTogether(t *testing.T) {
	dsn := database(t)
	var all errgroup.Group
	for i := range 30 {
		all.Go(func() error {
			l, err := postgres.Open(t.Context(), dsn, options(fmt.Sprint(i)))
			if err == nil {
				err = l.Close()
			}
			return err
		})
	}
	check.Must(t, all.Wait())
	tx, err := connection(t, dsn).Begin()
	check.Must(t, err)
	defer tx.Rollback()
	if _, err := tx.Exec(`SELECT pg_advisory_xact_lock($1)`, 0x616374696f6e7072); err != nil {
		t.Fatal(err)
	}
	open(t, dsn, "one")
}

func TestReadOnly(t *testing.T) {
	dsn := database(t)
	if _, err := postgres.OpenReader(t.Context(), dsn); err == nil {
		t.Error("a ledger was made to be read")
	}
	check.Must(t, open(t, dsn, "one").Begin(t.Context(), post("post_1")))
	r, err := postgres.OpenReader(t.Context(), dsn)
	check.Must(t, err)
	defer r.Close()
	if got, err := r.Get(t.Context(), "post_1"); err != nil || got.ID != "post_1" {
		t.Errorf("got %q, %v", got.ID, err)
	}
	existing := tables.Schema
	existing.Existing = true
	p, err := pool.OpenPool(t.Context(), dsn, existing)
	check.Must(t, err)
	defer p.Close()
	if err := p.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM posts`)
		return err
	}); err == nil {
		t.Error("the reader wrote")
	}
}
