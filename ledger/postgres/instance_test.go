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
