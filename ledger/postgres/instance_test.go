package postgres_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestInstance(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	name, held, err := postgres.Instance(dir)
	if err != nil || name == "" {
		t.Fatal(name, err)
	}
	_, _, err = postgres.Instance(dir)
	wantUnavailable(t, err, "in use")
	check.Must(t, held.Close())
	for _, tt := range []struct {
		dir  string
		same bool
	}{{dir, true}, {other, false}} {
		again, held, err := postgres.Instance(tt.dir)
		if err != nil || (again == name) != tt.same {
			t.Errorf("got %q, %v, after %q", again, err, name)
		}
		held.Close()
	}
	for _, bad := range []string{"", "short\n"} {
		check.Must(t, os.WriteFile(filepath.Join(dir, "instance"), []byte(bad), 0o600))
		_, _, err = postgres.Instance(dir)
		wantUnavailable(t, err, "remove it")
	}
	check.Must(t, os.Remove(filepath.Join(dir, "instance.lock")))
	check.Must(t, os.RemoveAll(dir))
	_, _, err = postgres.Instance(dir)
	wantUnavailable(t, err, "no such file")
}

func TestDraftsOfOthers(t *testing.T) {
	dsn := database(t)
	l := open(t, dsn, "one")
	kept := ledger.OpenCall{ID: "post_kept", Session: "ses_1", Started: ledgertest.Now(), Draft: `{"model":"m"}`}
	altered := kept
	altered.ID = "post_altered"
	check.Must(t, l.OpenCalls(t.Context(), kept, altered))
	exec(t, dsn, `UPDATE actionproof.open_calls SET draft = replace(draft, '"m"', '"n"') WHERE id = 'post_altered';
		INSERT INTO actionproof.open_calls SELECT session, instance, session, started, draft FROM actionproof.open_calls
			WHERE id = 'post_kept';
		INSERT INTO actionproof.open_calls SELECT 'post_other', instance, 'ses_2', started, draft
			FROM actionproof.open_calls WHERE id = 'post_kept'`)
	if left, err := l.LeftOpen(t.Context()); err != nil || !slices.Equal(left, []ledger.OpenCall{kept}) {
		t.Errorf("left open: %+v, %v: what another user of the database wrote would be signed", left, err)
	}
}

// TestCallsPutBack: the chain of one session has ended, and somebody puts its calls back.
func TestCallsPutBack(t *testing.T) {
	dsn, o := database(t), options("one")
	o.Chains = filepath.Join(t.TempDir(), "chains")
	l, err := postgres.Open(t.Context(), dsn, o)
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	var kept []ledger.OpenCall
	for _, session := range []string{"ses_1", "ses_2"} {
		kept = []ledger.OpenCall{{ID: "post_" + session, Session: session, Started: ledgertest.Now(), Draft: "{}"},
			{ID: session, Session: session, Started: ledgertest.Now(), Draft: "{}"}}
		check.Must(t, l.OpenCalls(t.Context(), kept...))
	}
	exec(t, dsn, `CREATE TABLE copies AS SELECT * FROM actionproof.open_calls`)
	for i, call := range []string{"post_ses_1", "ses_1"} {
		check.Must(t, l.AddReceipts(t.Context(), ledger.Receipt{Session: "ses_1", Number: int64(i + 1), Call: call,
			Signed: ledgertest.Now(), Token: "a"}))
	}
	exec(t, dsn, `INSERT INTO actionproof.open_calls SELECT * FROM copies ON CONFLICT DO NOTHING;
		DELETE FROM actionproof.receipts`)
	if left, err := l.LeftOpen(t.Context()); err != nil || !slices.Equal(left, kept) {
		t.Errorf("left open: %+v, %v: their session would get a second chain", left, err)
	}
}
