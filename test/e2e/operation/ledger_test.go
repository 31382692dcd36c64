package operation

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// TestLedgerInPostgres runs a sidecar with its ledger in a database. It does not post while the database is away, and
// posts again once it is back.
func TestLedgerInPostgres(t *testing.T) {
	t.Parallel()
	const password = "hunter2-of-the-ledger"
	server := pgtest.Start(t)
	dsn := server.Database(t)
	r := kit.NewRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		kit.Write(t, r.In("secrets/ledger-dsn"), dsn+"&password="+password+"\n")
		return r.GitHub(t), kit.ClientRules + "ledger: {postgres: {dsnFile: secrets/ledger-dsn}}\n"
	})
	recorded := func(n int) {
		kit.Until(t, fmt.Sprintf("%d records", n), func() bool { return len(r.Records(t, "state=forwarded")) == n })
	}
	for _, step := range []struct {
		before func()
		want   string
		posts  int64
	}{
		{func() {}, "201", 1},
		{func() { recorded(1); server.Kill(t) }, `"code":"ledger_unavailable"`, 1},
		{func() { server.Restart(t) }, "201", 2},
	} {
		step.before()
		if out := r.Curl(t); !strings.Contains(out, step.want) || r.Posts.Load() != step.posts {
			t.Errorf("got %s and %d posts, want %s and %d", out, r.Posts.Load(), step.want, step.posts)
		}
	}

	recorded(2)
	db, err := sql.Open("pgx", dsn)
	check.Must(t, err)
	defer db.Close()
	var keys int
	if err := db.QueryRow(`SELECT count(*) FROM actionproof.consumed`).Scan(&keys); err != nil || keys != 2*9 {
		t.Errorf("%d keys, %v", keys, err)
	}
	if _, err := os.Stat(r.In("state/ledger.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a ledger in a file too: %v", err)
	}
	if strings.Contains(r.Log(t, "serve"), password) {
		t.Error("the log shows the password")
	}
}
