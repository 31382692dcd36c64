package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestCopy(t *testing.T) {
	const records = 20
	live := t.TempDir()
	l := open(t, live)
	for i := range records {
		p := ledger.Record{ID: fmt.Sprintf("post_%02d", i), Flow: "post",
			Started: ledgertest.Now().Add(time.Duration(i) * time.Second)}
		check.Must(t, l.Begin(t.Context(), p))
	}
	inUse := read(t, filepath.Join(live, "ledger.db"))
	wal := read(t, filepath.Join(live, "ledger.db-wal"))
	check.Must(t, l.Close())
	closed := read(t, filepath.Join(live, "ledger.db"))
	if len(wal) == 0 {
		t.Fatal("nothing lies in the WAL")
	}
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		mode  os.FileMode // of the folder
	}{
		{"of a ledger that was closed", map[string][]byte{"copy.db": closed}, 0o700},
		{"in a folder that may not be written", map[string][]byte{"copy.db": closed}, 0o500},
		{"of a ledger in use, with its WAL", map[string][]byte{"copy.db": inUse, "copy.db-wal": wal}, 0o700},
		{"with an empty WAL", map[string][]byte{"copy.db": closed, "copy.db-wal": nil}, 0o700},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, raw := range tt.files {
				write(t, filepath.Join(dir, name), raw)
			}
			check.Must(t, os.Chmod(dir, tt.mode))
			c, err := sqlite.OpenCopy(t.Context(), filepath.Join(dir, "copy.db"))
			check.Must(t, err)
			found, err := ledgertest.List(t.Context(), c, ledger.Query{OldestFirst: true})
			if beside, _ := filepath.Glob(filepath.Join(dir, "*")); len(tt.files["copy.db-wal"]) == 0 &&
				len(beside) != len(tt.files) {
				t.Errorf("it wrote beside the copy: %v", beside) // which fails on a medium to be read only
			}
			if err != nil || len(found) != records || found[0].ID != "post_00" ||
				found[0].State != ledger.StateForwarding {
				t.Errorf("%d records, %v", len(found), err)
			}
			if p, err := c.Get(t.Context(), "post_07"); err != nil || p.ID != "post_07" {
				t.Errorf("got %v, %v", p.ID, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			for name, raw := range tt.files {
				if !bytes.Equal(read(t, filepath.Join(dir, name)), raw) {
					t.Errorf("%s was changed", name)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "copy.db.lock")); err == nil {
				t.Error("a lock was left")
			}
		})
	}
	t.Run("of the file of a process that has it open", func(t *testing.T) {
		l := open(t, live)
		check.Must(t, l.Add(t.Context(),
			ledger.Record{ID: "post_late", State: ledger.StateRefused, Started: ledgertest.Now()}))
		c, err := sqlite.OpenCopy(t.Context(), filepath.Join(live, "ledger.db"))
		check.Must(t, err)
		defer c.Close()
		if found, err := ledgertest.List(t.Context(), c, ledger.Query{}); err != nil || len(found) != records+1 {
			t.Errorf("%d records, %v", len(found), err)
		}
	})
	for name, make := range map[string]func(t *testing.T, path string){
		"nothing": func(*testing.T, string) {}, "no database": func(t *testing.T, path string) {
			write(t, path, []byte("none"))
		},
		"an empty file": func(t *testing.T, path string) {
			write(t, path, nil)
		}, "another schema version": another, "a database of another program": foreign, "a view for a table": viewed,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			make(t, path)
			_, err := sqlite.OpenCopy(t.Context(), path)
			wantUnavailable(t, err, "open copy.db")
		})
	}
}

// The WAL does not grow while a list is half read.
func TestListsHoldNothing(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	add := func(from, n int) {
		var records []ledger.Record
		for i := range n {
			records = append(records, ledger.Record{
				ID: fmt.Sprintf("post_%06d", from+i), Flow: "post", State: ledger.StateForwarded,
				Started: ledgertest.Now().Add(time.Duration(i) * time.Second),
				Reason:  string(bytes.Repeat([]byte{'x'}, 4<<10)),
			})
		}
		check.Must(t, l.Write(context.Background(), nil, records))
	}
	add(0, 600)
	read := 0
	for _, err := range l.Records(t.Context(), ledger.Query{}) {
		check.Must(t, err)
		if read++; read != 10 {
			continue
		}
		for i := range 20 {
			add(1000*(i+1), 600)
		}
		wal, err := os.Stat(filepath.Join(dir, "ledger.db-wal"))
		if err != nil || wal.Size() > 16<<20 { // SQLite writes 4 MiB back each time, and a transaction here is 3 MiB
			t.Errorf("the WAL has %d bytes, %v", wal.Size(), err)
		}
	}
	if read < 600 {
		t.Errorf("%d records were read", read)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	return raw
}

// TestLargeRows: a list holds some of its records in memory, and not as many as the rows of a page: in a hostile file
// they can share one text.
func TestLargeRows(t *testing.T) {
	l := open(t, t.TempDir())
	const rows = 100
	large := strings.Repeat("x", 1<<20)
	var receipts []ledger.Receipt
	for i := range rows {
		at := ledgertest.Now().Add(time.Duration(i) * time.Second)
		check.Must(t, l.Add(t.Context(), ledger.Record{ID: fmt.Sprintf("post_%03d", i), State: ledger.StateRefused,
			Started: at, Reason: large}))
		receipts = append(receipts, ledger.Receipt{Session: "ses_1", Number: int64(i + 1), Call: fmt.Sprint(i),
			Signed: at,
			Token:  large})
	}
	check.Must(t, l.AddReceipts(t.Context(), receipts...))
	var before, held runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for r, err := range l.Records(t.Context(), ledger.Query{OldestFirst: true}) {
		check.Must(t, err)
		if n == 0 {
			runtime.GC()
			runtime.ReadMemStats(&held)
		}
		if r.ID != fmt.Sprintf("post_%03d", n) {
			t.Fatalf("the record %d is %s", n, r.ID)
		}
		n++
	}
	if n != rows || held.HeapAlloc > before.HeapAlloc+rows<<19 {
		t.Errorf("%d records; the first page takes %d bytes", n, held.HeapAlloc-before.HeapAlloc)
	}
	_, err := l.Chain(t.Context(), "ses_1", 1, ledger.MaxChain)
	wantUnavailable(t, err, "longer than any")
	if some, err := l.Chain(t.Context(), "ses_1", 1, 50); err != nil || len(some) != 50 {
		t.Errorf("%d receipts, %v", len(some), err)
	}
}
