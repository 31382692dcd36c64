package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

func receipt(session string, number int64, at time.Time) ledger.Receipt {
	return ledger.Receipt{Session: session, Number: number, Call: fmt.Sprintf("post_%s_%d", session, number), Signed: at,
		Token: fmt.Sprintf("e30.%s.%d", session, number)}
}

func openCall(id, session string) ledger.OpenCall {
	return ledger.OpenCall{ID: id, Session: session, Started: Now(), Draft: `{"model":"m"}`}
}

// runReceipts tests chains of receipts.
func runReceipts(t *testing.T, open func(t *testing.T, place string) ledger.Store) {
	ctx := context.Background()
	left := func(t *testing.T, s ledger.Store) (ids []string) {
		t.Helper()
		calls, err := s.LeftOpen(ctx)
		check.Must(t, err)
		for _, c := range calls {
			ids = append(ids, c.ID)
		}
		return ids
	}
	t.Run("an open call outlives the process until it has a receipt", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		p := post("post_ses_1_2")
		begun := openCall(p.ID, "ses_1")
		p.Open = []ledger.OpenCall{begun}
		check.Must(t, s.OpenCalls(ctx, openCall("post_ses_1_1", "ses_1")), s.Begin(ctx, p, key("k", "a")), s.Close())
		s = open(t, place)
		calls, err := s.LeftOpen(ctx)
		check.Must(t, err)
		if want := []ledger.OpenCall{openCall("post_ses_1_1", "ses_1"), begun}; !slices.Equal(calls, want) {
			t.Fatalf("left open: %+v, want %+v", calls, want)
		}
		check.Must(t, s.AddReceipts(ctx, receipt("ses_1", 1, Now()), receipt("ses_1", 2, Now())), s.Close())
		if ids := left(t, open(t, place)); len(ids) != 0 {
			t.Errorf("still open: %v", ids)
		}
	})
	t.Run("a refused intent opens nothing", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Consume(ctx, key("k", "a")))
		p := post("post_1")
		begun := openCall(p.ID, "ses_1")
		p.Open = []ledger.OpenCall{begun}
		wantConsumed(t, s.Begin(ctx, p, key("k", "a")), "a")
		if ids := left(t, s); len(ids) != 0 {
			t.Errorf("open: %v", ids)
		}
		p.Open[0].Session = ""
		wantUnavailable(t, s.Begin(ctx, p, key("k", "b")))
		if err := s.Consume(ctx, key("k", "b")); err != nil {
			t.Errorf("a refused intent consumed a key: %v", err)
		}
	})
	t.Run("a chain is read in its order", func(t *testing.T) {
		s := open(t, t.TempDir())
		var all []ledger.Receipt
		for n := int64(1); n <= 12; n++ {
			all = append(all, receipt("ses_1", n, Now().Add(time.Duration(n)*time.Millisecond)))
			check.Must(t, s.AddReceipts(ctx, all[n-1], receipt("ses_10", n, Now())))
		}
		for _, tt := range []struct {
			from  int64
			limit int
			want  []ledger.Receipt
		}{{1, 1000, all}, {3, 2, all[2:4]}, {12, 100000, all[11:]}, {13, 10, nil}} {
			if got, err := s.Chain(ctx, "ses_1", tt.from, tt.limit); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("from %d, %d: got %+v, %v", tt.from, tt.limit, got, err)
			}
		}
		if last, err := s.LastReceipt(ctx, "ses_1"); err != nil || last != all[11] {
			t.Errorf("the last is %+v, %v", last, err)
		}
		for _, unknown := range []string{"ses_2", "", "ses_1\x00"} {
			if none, err := s.Chain(ctx, unknown, 1, 10); err != nil || len(none) != 0 {
				t.Errorf("%q: %v, %v", unknown, none, err)
			}
			if _, err := s.LastReceipt(ctx, unknown); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("%q: %v", unknown, err)
			}
		}
	})
	t.Run("receipts are written all or none, again without harm, and never forked", func(t *testing.T) {
		s := open(t, t.TempDir())
		one, two, three := receipt("ses_1", 1, Now()), receipt("ses_1", 2, Now()), receipt("ses_1", 3, Now())
		check.Must(t, s.OpenCalls(ctx, openCall(three.Call, "ses_1")), s.AddReceipts(ctx, one, two),
			s.AddReceipts(ctx, one, two),
			s.AddReceipts(ctx))
		fork := two
		fork.Token = "e30.other.2"
		if err := s.AddReceipts(ctx, three, fork); !errors.Is(err, ledger.ErrForked) {
			t.Errorf("a fork: %v", err)
		}
		wantUnavailable(t, s.AddReceipts(ctx, three, ledger.Receipt{Session: "ses_1", Number: 4}))
		if got, err := s.Chain(ctx, "ses_1", 1, 10); err != nil || !slices.Equal(got, []ledger.Receipt{one, two}) {
			t.Errorf("kept: %+v, %v", got, err)
		}
		if ids := left(t, s); !slices.Equal(ids, []string{three.Call}) {
			t.Errorf("open: %v", ids)
		}
		check.Must(t, s.OpenCalls(ctx, openCall(three.Call, "ses_1"), openCall("ses_1", "ses_1")))
		if ids := left(t, s); !slices.Equal(ids, []string{three.Call, "ses_1"}) {
			t.Errorf("open: %v", ids)
		}
		wantUnavailable(t, s.OpenCalls(ctx, ledger.OpenCall{ID: "post_1", Session: "ses_1"}))
	})
	t.Run("pruning removes whole chains", func(t *testing.T) {
		s := open(t, t.TempDir())
		var all []ledger.Receipt
		for n := int64(1); n <= 300; n++ { // more than one transaction removes
			all = append(all, receipt("ses_old", n, Now().Add(-3*time.Hour)),
				receipt("ses_lasting", n, Now().Add(-3*time.Hour)))
		}
		check.Must(t, s.AddReceipts(ctx, append(all, receipt("ses_lasting", 301, Now()))...), s.Prune(ctx, Now()))
		for session, want := range map[string]int{"ses_old": 0, "ses_lasting": 301} {
			if kept, err := s.Chain(ctx, session, 1, 1000); err != nil || len(kept) != want {
				t.Errorf("of %s %d receipts are kept, want %d: %v", session, len(kept), want, err)
			}
		}
	})
}
