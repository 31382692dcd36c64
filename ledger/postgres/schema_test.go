package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/ledgertest/pgtest"
	"github.com/actionproof/mediator/ledger/postgres"
)

// TestUpgrade opens a database of each earlier schema, with a key in it: it is consumed afterwards.
func TestUpgrade(t *testing.T) {
	ctx := context.Background()
	server := pgtest.Start(t)
	for n := 1; n < len(postgres.Migrations); n++ {
		dsn := server.Database(t)
		if err := postgres.Migrate(ctx, connection(t, dsn), postgres.Migrations[:n]); err != nil {
			t.Fatal(err)
		}
		exec(t, dsn, `INSERT INTO actionproof.consumed (kind, id, expires) VALUES ('capability', 'a', 1800000000)`)
		l := open(t, dsn, "one")
		if err := l.Consume(ctx, key("a")); !errors.Is(err, ledger.ErrConsumed) {
			t.Errorf("from schema version %d: the key lives again: %v", n, err)
		}
		if err := l.Begin(ctx, post("post_1"), key("b")); err != nil {
			t.Errorf("from schema version %d: %v", n, err)
		}
	}
}

// TestMigrate applies what a database lacks, one step at a time: those before one that fails stay.
func TestMigrate(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	db := connection(t, dsn)
	first, second, bad := "CREATE TABLE actionproof.t (n int)", "INSERT INTO actionproof.t VALUES (1)", "INSERT INTO actionproof.t VALUES (2); INSERT INTO nowhere VALUES (1)"
	for _, tt := range []struct {
		migrations []string
		fails      string
	}{
		{[]string{first, second, bad}, "migration 3"},
		{[]string{first, second}, ""},
		{[]string{first, second}, ""},
		{[]string{first}, "schema version 2"},
	} {
		err := postgres.Migrate(context.Background(), db, tt.migrations)
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("got %v, want %q", err, tt.fails)
		}
		var rows int
		if err := db.QueryRow(`SELECT count(*) FROM actionproof.t`).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows, %v", rows, err)
		}
	}
}
