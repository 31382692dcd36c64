package operation

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
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
		secrets := r.In("secrets")
		check.Must(t,
			errors.Join(os.MkdirAll(secrets, 0o700),
				os.WriteFile(filepath.Join(secrets, "ledger-dsn"), []byte(dsn+"&password="+password+"\n"), 0o600)))
		return r.GitHub(t), kit.ClientRules + "ledger: {postgres: {dsnFile: secrets/ledger-dsn}}\n"
	})
	post := func() string { t.Helper(); return r.Curl(t) }
	recorded := func(n int) {
		kit.Until(t, fmt.Sprintf("%d records", n), func() bool {
			var posts []ledger.Record
			err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?state=forwarded", &posts)
			return err == nil && len(posts) == n
		})
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
		if out := post(); !strings.Contains(out, step.want) || r.Posts.Load() != step.posts {
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
	log, err := os.ReadFile(r.In("serve.log"))
	if err != nil || bytes.Contains(log, []byte(password)) {
		t.Errorf("the log shows the password, or cannot be read: %v", err)
	}
}
