package pgtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// TestServer shows that a server forgets nothing when it is killed, and that its databases know nothing of each other.
func TestServer(t *testing.T) {
	s := pgtest.Start(t, "max_connections=20")
	first, second := s.Database(t), s.Database(t)
	query(t, first, "CREATE TABLE t (n int)")
	query(t, second, "CREATE TABLE t (n int)")
	query(t, first, "INSERT INTO t VALUES (1)")
	s.Kill(t)
	if c, err := pgx.Connect(context.Background(), first); err == nil {
		c.Close(context.Background())
		t.Fatal("a killed server answers")
	}
	s.Restart(t)
	for dsn, want := range map[string]string{first: "1", second: "0"} {
		if got := query(t, dsn, "SELECT count(*)::text FROM t"); got != want {
			t.Errorf("%s rows, want %s", got, want)
		}
	}
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "max_connections": "20",
		"listen_addresses": ""} {
		if got := query(t, first, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
}

// query runs one statement and returns the first column of its first row, if it has one.
func query(t *testing.T, dsn, sql string) (first string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	check.Must(t, err)
	defer c.Close(ctx)
	rows, err := c.Query(ctx, sql)
	check.Must(t, err)
	defer rows.Close()
	if rows.Next() {
		check.Must(t, rows.Scan(&first))
	}
	rows.Close()
	check.Must(t, rows.Err())
	return first
}
