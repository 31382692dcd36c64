package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/sqlite"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func openDB(t *testing.T) *sqlite.File {
	t.Helper()
	f, err := sqlite.OpenFile(context.Background(), filepath.Join(t.TempDir(), "x.db"),
		db.Schema{Version: 1, Tables: `
		CREATE TABLE t (n INTEGER, raw BLOB);
		CREATE TABLE parent (id INTEGER PRIMARY KEY);
		CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);`})
	check.Must(t, err)
	return f
}

var numbers = db.Schema{Version: 1, Tables: "CREATE TABLE t (n INTEGER)"}

func openNumbers(t *testing.T, path string) *sqlite.File {
	t.Helper()
	f, err := sqlite.OpenFile(context.Background(), path, numbers)
	check.Must(t, err)
	return f
}

func insert(n int) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error { _, err := tx.Exec("INSERT INTO t (n) VALUES (?)", n); return err }
}

func statement(query string) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error { _, err := tx.Exec(query); return err }
}

// together runs writes in one group, in this order, and returns their errors. It must be called in a synctest bubble.
func together(f *sqlite.File, writes ...func(tx *sql.Tx) error) []error {
	release := hold(f)
	errs := make([]error, len(writes))
	for i, do := range writes {
		go func() { errs[i] = f.Write(context.Background(), do) }()
		synctest.Wait() // it is in the queue
	}
	release()
	synctest.Wait()
	return errs
}

func hold(f *sqlite.File) (release func()) {
	gate := make(chan struct{})
	go f.Write(context.Background(), func(*sql.Tx) error { <-gate; return nil })
	synctest.Wait()
	return func() { close(gate) }
}

func rows(t *testing.T, f *sqlite.File) []int {
	t.Helper()
	r, err := f.Read().Query("SELECT n FROM t ORDER BY n")
	check.Must(t, err)
	defer r.Close()
	ns := []int{}
	for r.Next() {
		var n int
		check.Must(t, r.Scan(&n))
		ns = append(ns, n)
	}
	check.Must(t, r.Err())
	return ns
}

func TestGroup(t *testing.T) {
	refused := errors.New("refused")
	for _, tt := range []struct {
		name  string
		fault func(tx *sql.Tx) error
		is    error  // what the faulty write gets
		says  string // or what its ledger_unavailable says
		spoil string // what the write before it gets; empty when it is left alone
		want  []int  // with 1 before the fault and 3 after it in the same group, 4 in a later one
	}{
		{name: "refusal", fault: func(tx *sql.Tx) error {
			return errors.Join(insert(2)(tx), refused)
		}, is: refused, want: []int{1, 3, 4}},
		{name: "panic", fault: func(tx *sql.Tx) error {
			_ = insert(2)(tx)
			panic("fault")
		}, says: "panic: fault", want: []int{1, 3, 4}},
		{name: "bad statement", fault: statement("INSERT INTO nowhere VALUES (1)"), want: []int{1, 3, 4}},
		{name: "open rows", fault: func(tx *sql.Tx) error {
			r, err := tx.Query("SELECT 1 UNION SELECT 2") //nolint:sqlclosecheck // what it is about
			if err != nil || !r.Next() {
				return errors.New("no row")
			}
			return refused
		}, is: refused, want: []int{1, 3, 4}},
		// SQLite undoes the transaction: nothing was stored for the write before; the one after gets a new transaction.
		{name: "full disk", fault: fill, spoil: "full", want: []int{3, 4}},
		{
			name: "full disk, not reported", fault: func(tx *sql.Tx) error { _ = fill(tx); return nil },
			says: "no such savepoint", spoil: "no such savepoint", want: []int{3, 4},
		},
		// Writes were stored and are reported failed: that is why a key counts as consumed after such an error.
		{name: "ended transaction", fault: statement("COMMIT"), says: "no such savepoint", spoil: "no such savepoint",
			want: []int{1, 3, 4}},
		// COMMIT itself fails: nothing of the group is stored, and all writes get the error.
		{name: "failed commit", fault: statement("INSERT INTO child VALUES (7)"), says: "FOREIGN KEY",
			spoil: "FOREIGN KEY",
			want:  []int{4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := openDB(t)
				defer f.Close()
				errs := together(f, insert(1), tt.fault, insert(3))
				switch {
				case tt.is != nil && !errors.Is(errs[1], tt.is), errs[1] == nil:
					t.Errorf("the faulty write got %v", errs[1])
				case tt.says != "":
					wantUnavailable(t, errs[1], tt.says)
				}
				if tt.spoil == "" && errs[0] != nil {
					t.Errorf("the write before it got %v", errs[0])
				} else if tt.spoil != "" {
					wantUnavailable(t, errs[0], tt.spoil)
				}
				if stored := slices.Contains(tt.want, 3); (errs[2] == nil) != stored {
					t.Errorf("the write after it got %v", errs[2])
				}
				if err := f.Write(context.Background(), insert(4)); err != nil {
					t.Errorf("the writer has not recovered: %v", err)
				}
				if got := rows(t, f); !slices.Equal(got, tt.want) {
					t.Errorf("stored: %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func fill(tx *sql.Tx) error {
	var pages int
	if err := tx.QueryRow("PRAGMA max_page_count = 1").Scan(&pages); err != nil { // SQLite takes what the file has now
		return err
	}
	_, full := tx.Exec("INSERT INTO t VALUES (2, zeroblob(100000))")
	return errors.Join(full, tx.QueryRow("PRAGMA max_page_count = 1000000").Scan(&pages))
}

func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openDB(t)
		defer f.Close()
		release := hold(f)
		ctx, leave := context.WithCancel(context.Background())
		left := make(chan error, 1)
		go func() { left <- f.Write(ctx, insert(1)) }()
		synctest.Wait()
		leave()
		err := <-left // while the writer is still held
		wantUnavailable(t, err, "wait for the writer")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the cause is lost: %v", err)
		}
		release()
		check.Must(t, f.Write(context.Background(), insert(2)))
		if got := rows(t, f); !slices.Equal(got, []int{2}) {
			t.Errorf("stored: %v", got)
		}
	})
}

func TestCallerLeavesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openDB(t)
		defer f.Close()
		release := hold(f)
		ctx, leave := context.WithCancel(context.Background())
		left := make(chan error, 1)
		go f.Write(context.Background(), func(*sql.Tx) error { leave(); return nil })
		synctest.Wait()
		go func() { left <- f.Write(ctx, insert(1)) }()
		synctest.Wait()
		release()
		wantUnavailable(t, <-left, "context canceled")
		if got := rows(t, f); len(got) != 0 {
			t.Errorf("stored: %v", got)
		}
	})
}

func TestCallerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openDB(t)
		defer f.Close()
		ctx, leave := context.WithCancel(context.Background())
		err := f.Write(ctx, func(tx *sql.Tx) error { leave(); return insert(1)(tx) })
		if got := rows(t, f); err != nil || !slices.Equal(got, []int{1}) {
			t.Errorf("stored: %v, %v", got, err)
		}
	})
}

func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openDB(t)
		defer f.Close()
		release := hold(f)
		const more = 1
		errs := make(chan error, sqlite.MaxWaiting+more)
		for range sqlite.MaxWaiting {
			go func() { errs <- f.Write(context.Background(), func(*sql.Tx) error { return nil }) }()
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(context.Background())
		left := make(chan error, 1)
		go func() { left <- f.Write(ctx, insert(1)) }()
		go func() { errs <- f.Write(context.Background(), insert(2)) }()
		synctest.Wait()
		leave()
		wantUnavailable(t, <-left, "wait for the writer")
		release()
		for range sqlite.MaxWaiting + more {
			check.Must(t, <-errs)
		}
		if got := rows(t, f); !slices.Equal(got, []int{2}) {
			t.Errorf("stored: %v", got)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.db")
		f := openNumbers(t, path)
		release := hold(f)
		accepted := make(chan error, 10)
		for n := range 10 {
			go func() { accepted <- f.Write(context.Background(), insert(n)) }()
		}
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- f.Close() }()
		synctest.Wait()
		if err := f.Write(context.Background(), insert(99)); !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		release()
		for range 10 {
			if err := <-accepted; err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(<-closed, f.Close()); err != nil {
			t.Error(err)
		}
		f = openNumbers(t, path)
		defer f.Close()
		if got := rows(t, f); len(got) != 10 {
			t.Errorf("stored: %v", got)
		}
	})
}

func TestSettings(t *testing.T) {
	f := openDB(t)
	defer f.Close()
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1",
		"busy_timeout": "5000", "cache_size": "-1000"} {
		var got string
		err := f.Write(context.Background(),
			func(tx *sql.Tx) error { return tx.QueryRow("PRAGMA " + name).Scan(&got) })
		if err != nil || got != want {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
	if _, err := f.Read().Exec("INSERT INTO t (n) VALUES (1)"); err == nil {
		t.Error("the reading pool writes")
	}
}

func TestSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	for _, tt := range []struct {
		schema db.Schema
		says   string // empty: it opens
	}{
		{db.Schema{Version: 2, Tables: numbers.Tables + "; INSERT INTO nowhere VALUES (1)"}, "nowhere"},
		{db.Schema{Version: 2, Tables: numbers.Tables}, ""},
		{db.Schema{Version: 2, Tables: numbers.Tables}, ""},
		{
			db.Schema{Version: 1, Forgets: "numbers"},
			"schema version 2 and this program needs 1: use the program that made it. A new file would forget numbers",
		},
		{db.Schema{Version: 3, Tables: numbers.Tables}, "schema version 2 and this program needs 3"},
	} {
		f, err := sqlite.OpenFile(context.Background(), path, tt.schema)
		if tt.says != "" {
			wantUnavailable(t, err, tt.says)
			continue
		}
		check.Must(t, err)
		if got := rows(t, f); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		check.Must(t, f.Close())
	}
}

// SQLite keeps descriptors of a locked file open, because closing one would end the lock. They must not add up.
func TestDescriptorsOfReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	f := openNumbers(t, path)
	defer f.Close()
	check.Must(t, f.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO t (n) VALUES (1)")
		return err
	}))
	descriptors := func(of string) (n int) {
		all, err := filepath.Glob("/proc/self/fd/*")
		check.Must(t, err)
		for _, fd := range all {
			if to, _ := os.Readlink(fd); to == of {
				n++
			}
		}
		return n
	}
	const readers, waiting = 8, 2
	for range 3 {
		var reading []*sql.Rows
		for range readers {
			rows, err := f.Read().Query("SELECT n FROM t")
			check.Must(t, err)
			defer rows.Close()
			if !rows.Next() {
				t.Fatal(rows.Err())
			}
			reading = append(reading, rows)
		}
		for _, rows := range reading {
			_ = rows.Close()
		}
		if file, wal := descriptors(path), descriptors(path+"-wal"); file > 1+readers || wal > 1+waiting {
			t.Errorf("%d descriptors of the file and %d of its WAL are open", file, wal)
		}
	}
}

func wantUnavailable(t *testing.T, err error, sentence string) {
	t.Helper()
	var e *ledger.Error
	if !errors.As(err, &e) || e.Code() != "ledger_unavailable" || !strings.Contains(err.Error(), sentence) {
		t.Errorf("got %v, want ledger_unavailable with %q", err, sentence)
	}
}
