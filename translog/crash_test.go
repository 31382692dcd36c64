package translog_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

var plays = flag.Int("plays", 1, "how often a process is ended at each point")

// points end a process within a post's transactions, and at each step of the log.
var points = []string{"ledger begun", "ledger written", "ledger committed", "ledger committed, ledger written",
	"log begun", "log begun, ledger begun", "log begun, ledger written", "log begun, ledger committed", "log grown",
	"log signed", "log signed, ledger written", "log published", "log cosigned"}

// TestCrashes: wherever a process ends, no post lacks its leaf, none has two, and the tree grows from what was signed.
func TestCrashes(t *testing.T) {
	full.Only(t, "time to build a program")
	program := filepath.Join(t.TempDir(), "victim")
	out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", program,
		"../test/ledgertest/victim").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		playCrashes(t, program, path, false, func() (ledgertest.Logging, error) {
			return sqlite.Open(context.Background(), path, sqlite.Options{Now: time.Now, Logged: func() {}})
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := pgtest.Start(t).Database(t)
		playCrashes(t, program, dsn, true, func() (ledgertest.Logging, error) {
			return postgres.Open(context.Background(), dsn,
				postgres.Options{Now: time.Now, Instance: "going", Logged: func() {}})
		})
	})
}

// playCrashes ends a process at each point; beside it another one may go on. open opens the ledger as the first one.
func playCrashes(t *testing.T, program, place string, beside bool, open func() (ledgertest.Logging, error)) {
	var begun []string
	var published []ledger.Checkpoint
	file := filepath.Join(t.TempDir(), "point")
	for range *plays {
		for _, point := range points {
			lines := "victim: " + strings.ReplaceAll(point, ", ", "\nvictim: ")
			check.Must(t, os.WriteFile(file, []byte(lines), 0o600))
			other := func() {}
			if beside {
				other = startBeside(t, &begun, program, place, "staying", os.DevNull, "5")
			}
			out, err := exec.Command(program, place, "going", file, "100").Output()
			var ended *exec.ExitError
			if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("at %q it was not killed: %v", point, err)
			}
			other()
			begun = append(begun, strings.Fields(string(out))...)
			s, err := open()
			check.Must(t, err)
			_, c, err := s.TreeHead(t.Context())
			check.Must(t, err, s.Close())
			published = append(published, c.Signed)
		}
	}
	s, err := open() // settles what was in flight
	check.Must(t, err)
	defer s.Close()
	o, err := ledgertest.LogOptions()
	check.Must(t, err)
	log, err := translog.New(t.Context(), s, o)
	check.Must(t, err, log.Publish(t.Context()))
	head, c, err := s.TreeHead(t.Context())
	check.Must(t, err)
	numbers := make(map[int64]bool)
	records, err := ledgertest.List(t.Context(), s, ledger.Query{})
	check.Must(t, err)
	for _, r := range records {
		for _, kind := range []leaf.Kind{leaf.Intent, leaf.Outcome} {
			f, err := s.Leaf(t.Context(), leaf.ID(kind, r.ID))
			check.Must(t, err)
			opened, err := leaf.Open([]byte(f.Opening))
			check.Must(t, err, opened.CheckRecord(r))
			numbers[f.Index] = true
		}
	}
	if int64(len(numbers)) != head.Size || c.Accepted.Size != head.Size || numbers[-1] ||
		2*len(records) != len(numbers) {
		t.Errorf("%d records, %d numbers, %d entries", len(records), len(numbers), head.Size)
	}
	for _, id := range begun {
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Errorf("%s had begun: %v", id, err)
		}
	}
	fetched := torchwood.TileHashReaderWithContext(t.Context(), tlog.Tree{N: head.Size, Hash: head.Root}, tiles{s})
	for _, was := range published {
		if was.Note == "" {
			continue
		}
		text, _, _ := strings.Cut(was.Note, "\n\n")
		tree, err := torchwood.ParseCheckpoint(text + "\n")
		check.Must(t, err)
		root, err := tlog.TreeHash(tree.N, fetched)
		if err != nil || root != tree.Hash && tree.N > 0 {
			t.Errorf("the tree of %d is not the beginning of that of %d: %v", tree.N, head.Size, err)
		}
	}
	t.Logf("%d posts, %d entries", len(records), head.Size)
}

// startBeside starts another process. It returns a function that awaits its end.
func startBeside(t *testing.T, begun *[]string, program string, args ...string) (await func()) {
	t.Helper()
	var out bytes.Buffer
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = &out, os.Stderr
	check.Must(t, c.Start())
	return func() {
		check.Must(t, c.Wait())
		*begun = append(*begun, strings.Fields(out.String())...)
	}
}

// tiles reads the tiles of a store for torchwood.
type tiles struct{ ledger.LogReader }

func (s tiles) ReadTiles(ctx context.Context, wanted []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(wanted))
	for i, w := range wanted {
		got := []ledger.Tile{{Level: w.L, N: w.N}}
		if err := s.Tiles(ctx, got); err != nil {
			return nil, err
		}
		data[i] = got[0].Data[:w.W*tlog.HashSize]
	}
	return data, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (tiles) ReadEndpoint(context.Context, string) ([]byte, error) { return nil, ledger.ErrNotFound }
