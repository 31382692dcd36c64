package ledgertest

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// Logging is a store that keeps a transparency log.
type Logging interface {
	ledger.Store
	ledger.Log
}

// RunLog tests the part of a ledger that keeps a transparency log. open is as for [Run], with a retention of an hour,
// and opens a store that logs, or silent that does not.
func RunLog(t *testing.T, open, silent func(t *testing.T, place string) Logging) {
	ctx := context.Background()
	t.Run("a post from before the log leaves no outcome alone", func(t *testing.T) {
		place := t.TempDir()
		s := silent(t, place)
		check.Must(t, s.Begin(ctx, post("post_before")), s.Close())
		s = open(t, place)
		if r, err := s.Get(ctx, "post_before"); err != nil || r.State != ledger.StateIndeterminate {
			t.Errorf("got %+v, %v", r, err)
		}
		if f, err := s.Leaf(ctx, leaf.ID(leaf.Outcome, "post_before")); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("it has a leaf: %+v, %v", f, err)
		}
	})
	t.Run("each intent and each outcome has its leaf", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		ended, lost := post("post_ended"), post("post_lost")
		check.Must(t, s.Consume(ctx, key("k", "used")))
		wantConsumed(t, s.Begin(ctx, post("post_refused"), key("k", "used")), "used")
		check.Must(t, s.Begin(ctx, ended), s.Begin(ctx, lost))
		ended.State, ended.Status = ledger.StateForwarded, 201
		check.Must(t, s.Finish(ctx, ended))
		if err := s.Finish(ctx, ended); !errors.Is(err, ledger.ErrState) {
			t.Errorf("a second outcome: %v", err)
		}
		refused := post("post_refused")
		refused.State = ledger.StateRefused
		check.Must(t, s.Add(ctx, refused), s.Close())
		s = open(t, place) // makes the outcome of what was in flight
		for _, id := range []string{ended.ID, lost.ID} {
			r, err := s.Get(ctx, id)
			check.Must(t, err)
			for _, kind := range []leaf.Kind{leaf.Intent, leaf.Outcome} {
				o := opening(t, s, kind, id)
				check.Must(t, o.CheckRecord(r))
				if kind == leaf.Outcome && o.Document.State != string(r.State) {
					t.Errorf("%s: logged as %s", id, o.Document.State)
				}
			}
		}
		for _, kind := range leaf.Kinds {
			if f, err := s.Leaf(ctx, leaf.ID(kind, refused.ID)); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("a refused post has a leaf: %+v, %v", f, err)
			}
		}
	})
	t.Run("a leaf is stored once", func(t *testing.T) {
		s := open(t, t.TempDir())
		first := leaf.New(leaf.SessionOpened, Now(), leaf.Document{Session: "ses_1"}).Leaf("ses_1")
		again := leaf.New(leaf.SessionOpened, Now(), leaf.Document{Session: "ses_1"}).Leaf("ses_1")
		check.Must(t, s.AddLeaves(ctx), s.AddLeaves(ctx, first, again), s.AddLeaves(ctx, again))
		first.Index = -1
		if f, err := s.Leaf(ctx, first.ID); err != nil || f != first {
			t.Errorf("got %+v, %v", f, err)
		}
		if n, err := s.Integrate(ctx, 10, translog.Grow); err != nil || n != 1 {
			t.Errorf("%d leaves, %v", n, err)
		}
		if _, err := s.Leaf(ctx, "intent \x00"); !errors.Is(err, ledger.ErrNotFound) {
			t.Error(err)
		}
	})
	t.Run("the tree grows, all or nothing", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		addHeartbeats(t, s, 0, 5)
		failure := errors.New("no tree")
		if n, err := s.Integrate(ctx, 3, func(ledger.TreeHead, []ledger.Tile, []string) (ledger.Grown, error) {
			return ledger.Grown{}, failure
		}); n != 0 || !errors.Is(err, failure) {
			t.Errorf("%d, %v", n, err)
		}
		for i, want := range []int{3, 2, 0} {
			n, err := s.Integrate(ctx, 3, translog.Grow)
			head, _, unread := s.TreeHead(ctx)
			if errors.Join(err, unread) != nil || n != want || head.Size != int64(min(3*(i+1), 5)) {
				t.Errorf("%d of %d: %+v, %v, %v", n, want, head, err, unread)
			}
		}
		for i := range 5 {
			if f, err := s.Leaf(ctx, leaf.ID(leaf.Heartbeat, fmt.Sprint(i))); err != nil || f.Index != int64(i) {
				t.Errorf("the leaf %d has the number %d, %v", i, f.Index, err)
			}
		}
		of := func(size int64) ledger.Checkpoint {
			return ledger.Checkpoint{Size: size, Note: fmt.Sprint("\u2014 of ", size)}
		}
		for _, c := range []ledger.Checkpoints{{Signed: of(4)}, {Signed: of(5), Accepted: of(3)}, {Signed: of(4)},
			{Accepted: of(2)}, {Accepted: of(6)}, {}} {
			check.Must(t, s.PutCheckpoints(ctx, c))
		}
		check.Must(t, s.Close())
		s = open(t, place)
		if _, c, err := s.TreeHead(ctx); err != nil || c.Signed != of(5) || c.Accepted != of(3) {
			t.Errorf("got %+v, %v", c, err)
		}
		tiles := []ledger.Tile{{Level: -1}, {Level: 3, N: 7}}
		if err := s.Tiles(ctx, tiles); err != nil || len(tiles[0].Data) < 5*100 || tiles[1].Data != nil {
			t.Errorf("got %+v, %v", tiles, err)
		}
		shorter := func(head ledger.TreeHead, _ []ledger.Tile, _ []string) (ledger.Grown, error) {
			return ledger.Grown{Head: ledger.TreeHead{Size: head.Size + 1},
				Tiles: []ledger.Tile{{Level: -1, Data: []byte{0}}}}, nil
		}
		addHeartbeats(t, s, 5, 1)
		_, err := s.Integrate(ctx, 10, shorter)
		wantUnavailable(t, err)
	})
	t.Run("what opens a leaf goes with the records, once it has its number", func(t *testing.T) {
		s := open(t, t.TempDir())
		addHeartbeats(t, s, 0, 300)
		check.Must(t, s.Prune(ctx, Now().Add(2*time.Hour)))
		if n, err := s.Integrate(ctx, 299, translog.Grow); err != nil || n != 299 {
			t.Fatalf("%d, %v", n, err)
		}
		check.Must(t, s.Prune(ctx, Now().Add(30*time.Minute)))
		opening(t, s, leaf.Heartbeat, "0")
		check.Must(t, s.Prune(ctx, Now().Add(2*time.Hour)))
		if _, err := s.Leaf(ctx, leaf.ID(leaf.Heartbeat, "298")); !errors.Is(err, ledger.ErrNotFound) {
			t.Error(err)
		}
		opening(t, s, leaf.Heartbeat, "299")
		if n, err := s.Integrate(ctx, 10, translog.Grow); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func addHeartbeats(t *testing.T, s ledger.Log, from, n int) {
	t.Helper()
	var all []ledger.Leaf
	for i := from; i < from+n; i++ {
		all = append(all, leaf.New(leaf.Heartbeat, Now(), leaf.Document{}).Leaf(fmt.Sprint(i)))
	}
	check.Must(t, s.AddLeaves(context.Background(), all...))
}

func opening(t *testing.T, s ledger.LogReader, kind leaf.Kind, name string) leaf.Opening {
	t.Helper()
	f, err := s.Leaf(context.Background(), leaf.ID(kind, name))
	check.Must(t, err)
	o, err := leaf.Open([]byte(f.Opening))
	check.Must(t, err)
	if string(o.Entry.Encode()) != f.Entry || o.Entry.Kind != kind || o.Entry.Time != f.Made ||
		f.Made != Now().UnixMilli() {
		t.Errorf("%s is stored as %+v", f.ID, f)
	}
	return o
}

// RunSharedLog lets stores of one ledger post and number leaves at once: each leaf gets one number, and the tree only
// grows. open opens the same ledger each time.
func RunSharedLog(t *testing.T, open func(t *testing.T) Logging) {
	ctx := t.Context()
	stores := []Logging{open(t), open(t)}
	const posts = 150
	check.Together(t, 8, func(i int) error {
		s := stores[i%len(stores)]
		for n := range posts {
			r := post(fmt.Sprintf("post_%d_%d", i, n))
			err := s.Begin(ctx, r)
			r.State = ledger.StateForwarded
			if err = errors.Join(err, s.Finish(ctx, r)); err != nil {
				return err
			}
			if n%10 == 0 {
				if _, err := s.Integrate(ctx, 64, translog.Grow); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for n := 1; n > 0; {
		var err error
		n, err = stores[0].Integrate(ctx, 64, translog.Grow)
		check.Must(t, err)
	}
	numbers := make(map[int64]bool)
	for i := range 8 {
		for n := range posts {
			id := fmt.Sprintf("post_%d_%d", i, n)
			for _, kind := range []leaf.Kind{leaf.Intent, leaf.Outcome} {
				f, err := stores[1].Leaf(ctx, leaf.ID(kind, id))
				check.Must(t, err)
				numbers[f.Index] = true
			}
		}
	}
	head, _, err := stores[1].TreeHead(ctx)
	if err != nil || head.Size != 2*8*posts || int64(len(numbers)) != head.Size || numbers[-1] {
		t.Errorf("%d leaves have %d numbers, %v", head.Size, len(numbers), err)
	}
}

// LogOptions are those of a log without witnesses, with the same key each time.
func LogOptions() (translog.Options, error) {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	sign := func(_ context.Context, m []byte) ([]byte, error) { return ed25519.Sign(private, m), nil }
	k, err := translog.NewKey("log.example/test", private.Public().(ed25519.PublicKey), sign)
	return translog.Options{Key: k, Policy: translog.Unwitnessed(k), Now: time.Now, Failed: func(error) {}}, err
}
