package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/ledgertest"
)

// crashVariable makes the test binary begin a post in the ledger that it names, and then kill itself.
const crashVariable = "LEDGER_CRASH_AT"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashVariable); path != "" {
		crash(path)
	}
	goleak.VerifyTestMain(m)
}

func crash(path string) {
	l, err := ledger.Open(context.Background(), path, ledger.Options{Now: ledgertest.Now})
	if err == nil {
		err = l.Begin(context.Background(), ledger.Post{ID: "post_crash"}, ledger.Key{Kind: "capability", ID: "c", Expires: ledgertest.Now()})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func open(t testing.TB, dir string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), filepath.Join(dir, "ledger.db"), ledger.Options{Now: ledgertest.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestSQLite(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, place string) ledgertest.Store { return open(t, place) })
}

// TestKilled kills a process between Begin and Finish.
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
	if err := l.Consume(context.Background(), ledger.Key{Kind: "capability", ID: "c", Expires: ledgertest.Now()}); !errors.Is(err, ledger.ErrConsumed) {
		t.Errorf("the capability lives again: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	corrupt := filepath.Join(dir, "corrupt.db")
	if err := os.WriteFile(corrupt, []byte(strings.Repeat("no database\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	db, err := sql.Open("sqlite", newer)
	if err == nil {
		_, err = db.Exec("PRAGMA user_version = 99")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"corrupt": corrupt, "newer": newer, "no folder": filepath.Join(dir, "absent", "x.db")} {
		t.Run(name, func(t *testing.T) {
			l, err := ledger.Open(context.Background(), path, ledger.Options{Now: ledgertest.Now})
			if err == nil {
				l.Close()
				t.Fatal("opened")
			}
			var coded interface{ Code() string }
			if !errors.As(err, &coded) || coded.Code() != "ledger_unavailable" {
				t.Errorf("no code: %v", err)
			}
		})
	}
}

// TestWriteIsolated shows that in one group a refusal or a panic of one write leaves the others alone.
func TestWriteIsolated(t *testing.T) {
	db, err := ledger.OpenDB(context.Background(), filepath.Join(t.TempDir(), "x.db"), []string{"CREATE TABLE t (n INTEGER)"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	gate := make(chan struct{})
	first := make(chan error, 1)
	started := make(chan struct{})
	go func() { // holds the writer while the others queue up
		first <- db.Write(context.Background(), func(*sql.Tx) error { close(started); <-gate; return nil })
	}()
	<-started
	insert := func(n int) func(tx *sql.Tx) error {
		return func(tx *sql.Tx) error { _, err := tx.Exec("INSERT INTO t VALUES (?)", n); return err }
	}
	refused := errors.New("refused")
	results := make(chan error, 3)
	for _, do := range []func(tx *sql.Tx) error{
		insert(1),
		func(tx *sql.Tx) error { return errors.Join(insert(2)(tx), refused) },
		func(tx *sql.Tx) error { _ = insert(3)(tx); panic("fault") },
	} {
		go func() { results <- db.Write(context.Background(), do) }()
	}
	close(gate)
	var ok, bad int
	for range 3 {
		if err := <-results; err == nil {
			ok++
		} else {
			bad++
		}
	}
	var sum int
	if err := db.Read().QueryRow("SELECT sum(n) FROM t").Scan(&sum); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil || ok != 1 || bad != 2 || sum != 1 {
		t.Errorf("first %v, %d stored, %d refused, sum %d", err, ok, bad, sum)
	}
}
