package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
)

func newFollowed(t *testing.T) *ledger.Queue {
	t.Helper()
	l, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: time.Now})
	check.Must(t, err)
	q := ledger.NewQueue(l, func(r ledger.Record, err error) { t.Errorf("%s is lost: %v", r.ID, err) })
	t.Cleanup(func() { q.Close() })
	return q
}

func over(id string) ledger.Record {
	return ledger.Record{ID: id, Flow: "egress", State: ledger.StateForwarded, Started: time.Now(),
		Finished: time.Now(),
		Checks:   []ledger.Check{{Name: "grant", OK: true}}}
}

// next reads the ids of the next n calls.
func next(t *testing.T, f *ledger.Follower, n int) (ids []string) {
	t.Helper()
	for len(ids) < n {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		calls, missed, err := f.Next(ctx)
		cancel()
		check.Must(t, err)
		if missed > 0 {
			t.Errorf("%d calls are missed", missed)
		}
		for _, c := range calls {
			var r ledger.Record
			check.Must(t, json.Unmarshal(c.JSON, &r))
			if len(r.Checks)+len(r.Artifacts) > 0 || r.Flow != c.Flow || r.State != c.State {
				t.Errorf("the summary is %s", c.JSON)
			}
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// A follower gets each call once, when its end is stored: at once, later, and after an intent.
func TestEnded(t *testing.T) {
	t.Parallel()
	q := newFollowed(t)
	check.Must(t, q.Add(t.Context(), over("before")))
	one, two := q.Ended.Follow(), q.Ended.Follow()
	defer one.Close()
	intent := over("post")
	intent.Flow, intent.State = "post", ""
	check.Must(t, q.Begin(t.Context(), intent))
	check.Must(t, q.AddLater(over("later")))
	check.WantEqual(t, next(t, one, 1), []string{"later"})
	check.Must(t, q.Add(t.Context(), over("now")))
	intent.State = ledger.StateFailed
	check.Must(t, q.FinishLater(intent))
	check.WantEqual(t, next(t, one, 2), []string{"now", "post"})
	if err := q.Add(t.Context(), over("now")); err == nil {
		t.Error("a record is added twice")
	}
	check.WantEqual(t, next(t, two, 3), []string{"later", "now", "post"})
	two.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if calls, _, err := one.Next(ctx); err == nil {
		t.Errorf("there are more: %v", calls)
	}
}

// Many calls at once reach a reader that keeps up. One that does not read holds back a bounded number, and is told how
// many it misses.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	q := newFollowed(t)
	quick, slow := q.Ended.Follow(), q.Ended.Follow()
	defer quick.Close()
	defer slow.Close()
	const batches, batch = 60, 100
	for i := range batches {
		var all []ledger.Record
		for j := range batch {
			r := over(fmt.Sprintf("post_%05d", i*batch+j))
			r.Path = "/" + strings.Repeat("a", 4<<10)
			all = append(all, r)
			check.Must(t, q.AddLater(r))
		}
		ids := next(t, quick, batch)
		check.WantEqual(t, len(ids), batch)
		check.WantEqual(t, ids[batch-1], all[batch-1].ID)
	}
	calls, missed, err := slow.Next(t.Context())
	check.Must(t, err)
	size := 0
	for _, c := range calls {
		size += len(c.JSON)
	}
	if missed == 0 || missed+len(calls) != batches*batch || size > 8<<20 {
		t.Errorf("%d missed, %d kept with %d bytes", missed, len(calls), size)
	}
}
