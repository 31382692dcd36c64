package ledgertest

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// runDeliveries tests deliveries.
func runDeliveries(t *testing.T, open func(t *testing.T, place string) ledger.Store) {
	ctx := context.Background()
	claim := func(t *testing.T, s ledger.Store, now time.Time) []ledger.Delivery {
		t.Helper()
		claimed, err := s.ClaimDeliveries(ctx, now, now.Add(time.Minute), 10)
		check.Must(t, err)
		slices.SortFunc(claimed, func(a, b ledger.Delivery) int { return strings.Compare(a.Session, b.Session) })
		for i := range claimed {
			claimed[i].Due = time.Time{}
		}
		return claimed
	}
	wantClaim := func(t *testing.T, s ledger.Store, now time.Time, want ...ledger.Delivery) {
		t.Helper()
		if got := claim(t, s, now); !slices.Equal(got, want) {
			t.Errorf("claimed %+v, want %+v", got, want)
		}
	}
	t.Run("what is acknowledged outlives the process", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		wantClaim(t, s, Now())
		for n := int64(1); n <= 3; n++ {
			check.Must(t, s.AddReceipts(ctx, receipt("ses_1", n, Now()), receipt("ses_2", n, Now())))
		}
		check.Must(t, s.AddReceipts(ctx, receipt("ses_2", 1, Now()))) // of which it was not known whether it is kept
		wantClaim(t, s, Now(), ledger.Delivery{Session: "ses_1"}, ledger.Delivery{Session: "ses_2"})
		check.Must(t, s.SettleDeliveries(ctx, ledger.Delivery{Session: "ses_1", Number: 2, Due: Now()},
			ledger.Delivery{Session: "ses_2", Number: 3, Due: Now()}), s.Close())
		s = open(t, place)
		wantClaim(t, s, Now(), ledger.Delivery{Session: "ses_1", Number: 2})
		check.Must(t, s.AddReceipts(ctx, receipt("ses_2", 4, Now())),
			s.SettleDeliveries(ctx, ledger.Delivery{Session: "ses_1", Number: 3, Due: Now()}))
		wantClaim(t, s, Now(), ledger.Delivery{Session: "ses_2", Number: 3})
		check.Must(t, s.SettleDeliveries(ctx, ledger.Delivery{Session: "ses_2", Whole: true},
			ledger.Delivery{Session: "ses_unknown", Number: 1}))
		wantClaim(t, s, Now().Add(time.Hour))
	})
	t.Run("a refused session waits for its time", func(t *testing.T) {
		s := open(t, t.TempDir())
		refused := ledger.Delivery{Session: "ses_1", Number: 1, Due: Now().Add(time.Hour), Refused: "chain_broken"}
		check.Must(t, s.AddReceipts(ctx, receipt("ses_1", 1, Now()), receipt("ses_1", 2, Now())),
			s.SettleDeliveries(ctx, refused))
		wantClaim(t, s, Now().Add(time.Hour-time.Millisecond))
		refused.Due = time.Time{}
		wantClaim(t, s, Now().Add(time.Hour), refused)
	})
	t.Run("those that wait longest come first, and no more than asked for", func(t *testing.T) {
		s := open(t, t.TempDir())
		for i, session := range []string{"ses_1", "ses_2", "ses_3"} {
			check.Must(t, s.AddReceipts(ctx, receipt(session, 1, Now())),
				s.SettleDeliveries(ctx, ledger.Delivery{Session: session, Due: Now().Add(-time.Duration(i) * time.Second)}))
		}
		got, err := s.ClaimDeliveries(ctx, Now(), Now().Add(time.Minute), 2)
		check.Must(t, err)
		if len(got) != 2 || slices.ContainsFunc(got, func(d ledger.Delivery) bool { return d.Session == "ses_1" }) {
			t.Errorf("claimed %+v", got)
		}
	})
	t.Run("the backlog", func(t *testing.T) {
		s := open(t, t.TempDir())
		want := func(want ledger.Backlog) {
			t.Helper()
			if got, err := s.Backlog(ctx); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		want(ledger.Backlog{})
		for n := int64(1); n <= 3; n++ {
			check.Must(t, s.AddReceipts(ctx, receipt("ses_1", n, Now().Add(time.Duration(n)*time.Minute)),
				receipt("ses_2", n, Now().Add(time.Duration(10+n)*time.Minute))))
		}
		want(ledger.Backlog{Receipts: 6, Oldest: Now().Add(time.Minute)})
		check.Must(t, s.SettleDeliveries(ctx, ledger.Delivery{Session: "ses_1", Number: 3, Due: Now()},
			ledger.Delivery{Session: "ses_2", Number: 1, Due: Now(), Refused: "why"}))
		want(ledger.Backlog{Receipts: 2, Oldest: Now().Add(12 * time.Minute), Refused: 1, Reason: "why"})
		check.Must(t, s.SettleDeliveries(ctx, ledger.Delivery{Session: "ses_2", Number: 3, Due: Now()}))
		want(ledger.Backlog{})
	})
	t.Run("what is pruned before it is handed over is counted", func(t *testing.T) {
		s := open(t, t.TempDir())
		for n := int64(1); n <= 300; n++ { // more than one transaction removes
			check.Must(t, s.AddReceipts(ctx, receipt("ses_old", n, Now().Add(-3*time.Hour)),
				receipt("ses_whole", n, Now().Add(-3*time.Hour))))
		}
		check.Must(t, s.AddReceipts(ctx, receipt("ses_new", 1, Now())))
		check.Must(t, s.SettleDeliveries(ctx, ledger.Delivery{Session: "ses_old", Number: 100, Due: Now()},
			ledger.Delivery{Session: "ses_whole", Whole: true}), s.Prune(ctx, Now()))
		if b, err := s.Backlog(ctx); err != nil || b.Pruned != 200 || b.Receipts != 1 {
			t.Errorf("%+v, %v", b, err)
		}
		wantClaim(t, s, Now().Add(time.Hour), ledger.Delivery{Session: "ses_new"})
	})
}

// RunSharedDeliveries lets processes that share a ledger claim at once: each session has one owner. open opens the same
// ledger each time.
func RunSharedDeliveries(t *testing.T, open func(t *testing.T) ledger.Store) {
	ctx := t.Context()
	stores := []ledger.Store{open(t), open(t)}
	for range 20 {
		check.Must(t, stores[0].AddReceipts(ctx, receipt("ses_"+rand.Text(), 1, Now())))
	}
	var mu sync.Mutex
	claimed := make(map[string]int)
	var claims sync.WaitGroup
	for _, s := range stores {
		for range 4 {
			claims.Go(func() {
				got, err := s.ClaimDeliveries(ctx, Now(), Now().Add(time.Minute), 5)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, d := range got {
					claimed[d.Session]++
				}
			})
		}
	}
	claims.Wait()
	for _, s := range stores { // what was left out while another claimed it
		rest, err := s.ClaimDeliveries(ctx, Now(), Now().Add(time.Minute), 20)
		check.Must(t, err)
		for _, d := range rest {
			claimed[d.Session]++
		}
	}
	for session, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed %d times", session, n)
		}
	}
	if len(claimed) != 20 {
		t.Errorf("%d sessions were claimed, want 20", len(claimed))
	}
}
