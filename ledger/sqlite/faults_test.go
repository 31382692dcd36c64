package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func numbered(n int) (ledger.Record, ledger.Key) {
	id := fmt.Sprintf("post_%06d", n)
	return ledger.Record{ID: id, Flow: "post", Started: ledgertest.Now()},
		ledger.Key{Kind: "capability", ID: id, Expires: ledgertest.Now().Add(time.Minute)}
}

func begin(l *sqlite.Ledger, from int) (next int, err error) {
	for n := from; ; n++ {
		p, k := numbered(n)
		if err := l.Begin(context.Background(), p, k); err != nil {
			return n, err
		}
	}
}

func wantPosts(t *testing.T, l *sqlite.Ledger, n int, state ledger.State) {
	t.Helper()
	for i := range n {
		p, k := numbered(i)
		if got, err := l.Get(context.Background(), p.ID); err != nil || got.State != state {
			t.Fatalf("%s is %s, %v", p.ID, got.State, err)
		}
		if err := l.Consume(context.Background(), k); !errors.Is(err, ledger.ErrConsumed) {
			t.Fatalf("the key of %s: %v", p.ID, err)
		}
	}
	p, _ := numbered(n)
	if got, err := l.Get(context.Background(), p.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a refused post has a record: %+v, %v", got, err)
	}
}

// A refused post leaves nothing, the others everything, and the ledger goes on once there is room.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	fill, empty := check.SmallDisk(t, dir, "1m")
	l := open(t, dir)
	last := 0
	for range 3 {
		p, k := numbered(last)
		if err := l.Begin(context.Background(), p, k); err != nil {
			t.Fatalf("there is room: %v", err)
		}
		fill()
		next, err := begin(l, last+1)
		wantUnavailable(t, err, "full")
		last = next
		wantPosts(t, l, last, ledger.StateForwarding)
		p, _ = numbered(0)
		p.State, p.Reason = ledger.StateForwarded, strings.Repeat("long ", 10000)
		wantUnavailable(t, l.Finish(context.Background(), p), "full")
		empty()
	}
	check.Must(t, l.Close())
	wantPosts(t, open(t, dir), last, ledger.StateIndeterminate)
}

// The check of a watched ledger fails while its disk is full.
func TestCheckedOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	fill, empty := check.SmallDisk(t, dir, "1m")
	l := open(t, dir)
	w, err := ledger.Watch(t.Context(), l, filepath.Join(dir, "mark.json"), func(error) {})
	check.Must(t, err)
	t.Cleanup(func() { w.Close() })
	check.Must(t, w.Consume(t.Context()))
	fill()
	for n := 0; err == nil; n++ {
		p, k := numbered(n)
		err = w.Begin(t.Context(), p, k)
	}
	wait := func(fails bool) (err error) { // the mark is noted each second
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if err = w.Consume(t.Context()); (err != nil) == fails {
				break
			}
		}
		return err
	}
	wantUnavailable(t, wait(true), "no space")
	empty()
	check.Must(t, wait(false))
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := t.TempDir()
	check.SmallDisk(t, dir, "4m")
	l := open(t, dir)
	p, k := numbered(0)
	check.Must(t, l.Begin(context.Background(), p, k), l.Close())
	remount := func(flags uintptr) {
		check.Must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""))
	}
	remount(syscall.MS_RDONLY)
	_, err := sqlite.Open(context.Background(), filepath.Join(dir, "ledger.db"), sqlite.Options{Now: ledgertest.Now})
	wantUnavailable(t, err, "read-only file system")
	remount(0)
	wantPosts(t, open(t, dir), 1, ledger.StateIndeterminate)
}

// The last few of the n posts are in the WAL alone.
func crashedWith(t *testing.T, n, inWAL int) (dir string) {
	t.Helper()
	at, dir := t.TempDir(), t.TempDir()
	l := open(t, at)
	for i := range n {
		if i == n-inWAL { // closing writes the WAL into the database
			check.Must(t, l.Close())
			l = open(t, at)
		}
		p, k := numbered(i)
		check.Must(t, l.Begin(context.Background(), p, k))
	}
	for _, name := range []string{"ledger.db", "ledger.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(at, name))
		check.Must(t, err)
		write(t, filepath.Join(dir, name), raw)
	}
	return dir
}

// Earlier writes stay, and a post has its record and its key or neither.
func TestTornWAL(t *testing.T) {
	const posts, inWAL = 12, 8
	crashed := crashedWith(t, posts, inWAL)
	database, err := os.ReadFile(filepath.Join(crashed, "ledger.db"))
	wal, bad := os.ReadFile(filepath.Join(crashed, "ledger.db-wal"))
	check.Must(t, err, bad)
	left := make(map[int]bool)
	for at := 0; at <= len(wal); at += 3001 { // a prime: at each part of a frame
		for _, tail := range [][]byte{nil, bytes.Repeat([]byte{0xa5}, len(wal)-at)} {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "ledger.db"), database)
			write(t, filepath.Join(dir, "ledger.db-wal"), append(bytes.Clone(wal[:at]), tail...))
			l := open(t, dir)
			records, err := ledgertest.List(context.Background(), l, ledger.Query{Limit: 100})
			if err != nil || len(records) < posts-inWAL {
				t.Fatalf("cut at %d: %d records, %v", at, len(records), err)
			}
			wantPosts(t, l, len(records), ledger.StateIndeterminate)
			_, k := numbered(len(records))
			if err := l.Consume(context.Background(), k); err != nil {
				t.Errorf("cut at %d: the key of a post without a record: %v", at, err)
			}
			left[len(records)] = true
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if len(left) < inWAL {
		t.Errorf("cutting left %v posts", left)
	}
}

// No used key is accepted again, nor a key whose record cannot be stored.
func TestDamagedPage(t *testing.T) {
	const posts, pageSize = 150, 4096
	dir := t.TempDir()
	l := open(t, dir)
	for i := range posts {
		p, k := numbered(i)
		check.Must(t, l.Begin(context.Background(), p, k))
	}
	check.Must(t, l.Close())
	whole, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
	check.Must(t, err)
	refused := 0
	for page := range len(whole) / pageSize {
		for _, with := range []byte{0, 0xa5} {
			raw := bytes.Clone(whole)
			copy(raw[page*pageSize:], bytes.Repeat([]byte{with}, pageSize))
			path := filepath.Join(t.TempDir(), "ledger.db")
			write(t, path, raw)
			l, err := sqlite.Open(context.Background(), path, sqlite.Options{Now: ledgertest.Now})
			if err != nil {
				wantUnavailable(t, err, "")
				refused++
				continue
			}
			for i := range posts {
				_, k := numbered(i)
				if err := l.Consume(context.Background(), k); err == nil {
					t.Errorf("page %d: the key of post %d is good again", page+1, i)
				} else if !errors.Is(err, ledger.ErrConsumed) {
					wantUnavailable(t, err, "")
				}
			}
			p, k := numbered(posts)
			if err := l.Begin(context.Background(), p, k); err != nil {
				wantUnavailable(t, err, "")
			} else if got, err := l.Get(context.Background(), p.ID); err != nil || got.State != ledger.StateForwarding {
				t.Errorf("page %d: a post has begun without its record: %v", page+1, err)
			}
			_ = l.Close() // it may say once more what is wrong
		}
	}
	if refused == 0 {
		t.Error("no damage was found at the start")
	}
}

func TestFileRemoved(t *testing.T) {
	for _, name := range []string{"ledger.db", "ledger.db-wal", "."} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			check.Must(t, os.Mkdir(dir, 0o700))
			l := open(t, dir)
			p, k := numbered(0)
			check.Must(t, l.Begin(context.Background(), p, k))
			path := filepath.Join(dir, name)
			check.Must(t, os.Rename(path, filepath.Join(filepath.Dir(dir), "elsewhere")))
			p, k = numbered(1)
			wantUnavailable(t, l.Begin(context.Background(), p, k), "has been removed")
			if name == "ledger.db" {
				write(t, path, nil)
				wantUnavailable(t, l.Begin(context.Background(), p, k), "has been replaced")
			}
			check.Must(t, os.Rename(filepath.Join(filepath.Dir(dir), "elsewhere"), path))
			if err := l.Begin(context.Background(), p, k); err != nil {
				t.Errorf("it was put back, and a write says: %v", err)
			}
		})
	}
}
