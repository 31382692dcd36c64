package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	file "github.com/actionproof/mediator/internal/db/sqlite"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/test/ledgertest"
)

// crashVariable makes the test binary begin a post in the ledger that it names, and then kill itself.
const crashVariable = "LEDGER_CRASH_AT"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashVariable); path != "" {
		crash(path)
	}
	if path := os.Getenv(readOnlyVariable); path != "" {
		openReadOnly(path)
	}
	leaktest.Main(m)
}

func crash(path string) {
	l, err := sqlite.Open(context.Background(), path, sqlite.Options{Now: ledgertest.Now})
	if err == nil {
		k := ledger.Key{Kind: "capability", ID: "c", Expires: ledgertest.Now()}
		err = l.Begin(context.Background(), ledger.Record{ID: "post_crash", Started: ledgertest.Now()}, k)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func open(t testing.TB, dir string) *sqlite.Ledger { return openKeeping(t, dir, 0) }

func openKeeping(t testing.TB, dir string, retention time.Duration) *sqlite.Ledger {
	t.Helper()
	l, err := sqlite.Open(context.Background(), filepath.Join(dir, "ledger.db"),
		sqlite.Options{Now: ledgertest.Now, Retention: retention})
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func openLogging(t testing.TB, dir string) *sqlite.Ledger { return openWith(t, dir, func() {}) }

func openWith(t testing.TB, dir string, logged func()) *sqlite.Ledger {
	t.Helper()
	l, err := sqlite.Open(context.Background(), filepath.Join(dir, "ledger.db"),
		sqlite.Options{Now: ledgertest.Now, Retention: time.Hour, Logged: logged})
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLog(t *testing.T) {
	ledgertest.RunLog(t, func(t *testing.T, place string) ledgertest.Logging { return openLogging(t, place) },
		func(t *testing.T, place string) ledgertest.Logging { return openWith(t, place, nil) })
	l := openLogging(t, t.TempDir())
	ledgertest.RunSharedLog(t, func(*testing.T) ledgertest.Logging { return l })
}

func TestExports(t *testing.T) {
	ledgertest.RunExports(t, func(t *testing.T, place string, ended func()) ledgertest.Exporting {
		l, err := sqlite.Open(t.Context(), filepath.Join(place, "ledger.db"),
			sqlite.Options{Now: ledgertest.Now, Retention: time.Hour, Ended: ended})
		check.Must(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	})
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T, place string, retention time.Duration) ledger.Store {
		return openKeeping(t, place, retention)
	})
}

func TestKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashVariable+"="+filepath.Join(dir, "ledger.db"))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process was to kill itself: %v %s", err, out)
	}
	l := open(t, dir)
	p, err := l.Get(context.Background(), "post_crash")
	if err != nil || p.State != ledger.StateIndeterminate {
		t.Errorf("got %+v, %v", p, err)
	}
	if err := l.Consume(context.Background(),
		ledger.Key{Kind: "capability", ID: "c", Expires: ledgertest.Now()}); !errors.Is(err, ledger.ErrConsumed) {
		t.Errorf("the capability lives again: %v", err)
	}
}

func TestArtifactsOfManyPosts(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	post := func(i int) ledger.Record {
		return ledger.Record{ID: fmt.Sprintf("post_%d", i), Started: ledgertest.Now(),
			Artifacts: []ledger.Artifact{{Name: "grant", Token: strings.Repeat(strconv.Itoa(i%10), 1000+i)}}}
	}
	const posts = 200
	var all sync.WaitGroup
	begun := make([]bool, posts)
	for i := range posts {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			if i%3 == 0 {
				go cancel()
			}
			begun[i] = l.Begin(ctx, post(i)) == nil
			cancel()
		})
	}
	all.Wait()
	for i := range posts {
		got, err := l.Get(context.Background(), post(i).ID)
		switch {
		case !begun[i] && i%3 == 0:
		case err != nil:
			t.Error(err)
		case !slices.Equal(got.Artifacts, post(i).Artifacts):
			t.Errorf("post %d has other artifacts than it began with", i)
		}
	}
	check.Must(t, l.Close())
	db, err := file.OpenFile(context.Background(), filepath.Join(dir, "ledger.db"), tables.Schema)
	check.Must(t, err)
	defer db.Close()
	var other int
	err = db.Write(context.Background(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM artifacts WHERE typeof(artifacts) <> 'text'`).Scan(&other)
	})
	if err != nil || other != 0 {
		t.Errorf("%d rows of artifacts are no text: %v", other, err)
	}
}

// A second process must not treat the first one's posts in flight as lost.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	p := ledger.Record{ID: "post_1", Started: ledgertest.Now()}
	check.Must(t, l.Begin(context.Background(), p))
	_, err := sqlite.Open(context.Background(), filepath.Join(dir, "ledger.db"), sqlite.Options{Now: ledgertest.Now})
	wantUnavailable(t, err, "in use")
	p.State = ledger.StateForwarded
	if err := l.Finish(context.Background(), p); err != nil {
		t.Error(err)
	}
}

func wantUnavailable(t *testing.T, err error, sentence string) {
	t.Helper()
	var e *ledger.Error
	if !errors.As(err, &e) || e.Code() != "ledger_unavailable" || !strings.Contains(err.Error(), sentence) {
		t.Errorf("got %v, want ledger_unavailable with %q", err, sentence)
	}
}
