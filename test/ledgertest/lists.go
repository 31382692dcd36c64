package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// fillStore adds n records, one each second; every seventh is of another flow and every hundredth refused.
func fillStore(t *testing.T, s ledger.Store, n int) (ids []string) {
	t.Helper()
	var records []ledger.Record
	for i := range n {
		p := post(fmt.Sprintf("post_%05d", i))
		p.State, p.Started = ledger.StateForwarded, Now().Add(time.Duration(i)*time.Second)
		if i%7 == 0 {
			p.Flow = "egress"
		}
		if i%100 == 0 {
			p.State = ledger.StateRefused
		}
		records, ids = append(records, p), append(ids, p.ID)
	}
	check.Must(t, s.Write(context.Background(), nil, records))
	return ids
}

// runLists tests long lists.
func runLists(t *testing.T, open func(t *testing.T, place string) ledger.Store) {
	ctx := context.Background()
	t.Run("a list of any length is whole, in one order", func(t *testing.T) { wholeLists(t, open(t, t.TempDir())) })
	t.Run("posts go on while a list is read", func(t *testing.T) {
		s := open(t, t.TempDir())
		fillStore(t, s, 600)
		read := 0
		for _, err := range s.Records(ctx, ledger.Query{}) {
			check.Must(t, err)
			if read++; read%100 == 1 {
				p := post(fmt.Sprint("post_meanwhile_", read))
				p.Started = Now().Add(time.Hour)
				check.Must(t, s.Begin(ctx, p, key("k", p.ID)))
			}
		}
		if read != 600 {
			t.Errorf("%d records are in the list, want those that were there", read)
		}
	})
	t.Run("a list ends with its caller", func(t *testing.T) {
		s := open(t, t.TempDir())
		fillStore(t, s, 600)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var failed error
		read := 0
		for _, err := range s.Records(ctx, ledger.Query{}) {
			if err != nil {
				failed = err
				continue
			}
			read++
			cancel()
		}
		wantUnavailable(t, failed)
		if read == 0 || read >= 600 {
			t.Errorf("%d records were read", read)
		}
	})
}

// wholeLists reads lists longer than one page of a store.
func wholeLists(t *testing.T, s ledger.Store) {
	const n = 800
	ids := fillStore(t, s, n)
	at := func(i int) time.Time { return Now().Add(time.Duration(i) * time.Second) }
	for _, tt := range []struct {
		name string
		q    ledger.Query
		want func(i int) bool
	}{
		{"all", ledger.Query{}, func(int) bool { return true }},
		{"since", ledger.Query{Since: at(400)}, func(i int) bool { return i >= 400 }},
		{"until", ledger.Query{Until: at(400)}, func(i int) bool { return i < 400 }},
		{"a range of time", ledger.Query{Since: at(100), Until: at(700)}, func(i int) bool { return i >= 100 && i < 700 }},
		{"an empty range", ledger.Query{Since: at(400), Until: at(400)}, func(int) bool { return false }},
		{"a flow in a range", ledger.Query{Since: at(100), Until: at(700), Flow: "egress"}, func(i int) bool {
			return i >= 100 && i < 700 && i%7 == 0
		}},
		{"few of a state", ledger.Query{State: ledger.StateRefused}, func(i int) bool { return i%100 == 0 }},
		{"few of a state and a flow", ledger.Query{State: ledger.StateRefused, Flow: "egress"}, func(i int) bool {
			return i%700 == 0
		}},
		{"most of a state", ledger.Query{State: ledger.StateForwarded, Until: at(600)}, func(i int) bool {
			return i%100 != 0 && i < 600
		}},
		{"a session", ledger.Query{Session: "ses_1", Since: at(3)}, func(i int) bool { return i >= 3 }},
		{"another session", ledger.Query{Session: "ses_2"}, func(int) bool { return false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want []string
			for i, id := range ids {
				if tt.want(i) {
					want = append(want, id)
				}
			}
			for _, tt.q.OldestFirst = range []bool{true, false} {
				if got := all(t, s, tt.q); !slices.Equal(got, want) {
					t.Fatalf("oldest first %t: %d records, want %d", tt.q.OldestFirst, len(got), len(want))
				}
				for _, limit := range []int{1, 2, 255, 256, 257, 600} {
					q, read := tt.q, []string(nil)
					for q.Limit = limit; ; {
						page := all(t, s, q)
						if len(page) > limit {
							t.Fatalf("%d records, with a limit of %d", len(page), limit)
						}
						read = append(read, page...)
						if len(page) < limit || limit < 3 && len(read) > 5 {
							break
						}
						q.Cursor = page[len(page)-1]
					}
					if limit < 3 {
						want := want[:min(len(want), len(read))]
						if !slices.Equal(read, want) {
							t.Errorf("limit %d: got %v, want %v", limit, read, want)
						}
					} else if !slices.Equal(read, want) {
						t.Errorf("limit %d: %d records, want %d", limit, len(read), len(want))
					}
				}
				slices.Reverse(want)
			}
		})
	}
	bare, err := List(context.Background(), s, ledger.Query{Bare: true, Limit: 2})
	check.Must(t, err)
	if len(bare) != 2 || bare[0].ID != ids[n-1] || bare[0].Artifacts != nil || bare[0].Flow == "" {
		t.Errorf("without artifacts: %+v", bare)
	}
	for _, tt := range []struct {
		q    ledger.Query
		want []string
	}{ // the later one of a cursor and a time counts
		{ledger.Query{Cursor: ids[600], Until: at(10)}, []string{ids[9], ids[8]}},
		{ledger.Query{Cursor: ids[10], Until: at(600)}, []string{ids[9], ids[8]}},
		{ledger.Query{Cursor: ids[10], Since: at(600), OldestFirst: true}, []string{ids[600], ids[601]}},
		{ledger.Query{Cursor: ids[600], Since: at(10), OldestFirst: true}, []string{ids[601], ids[602]}},
	} {
		tt.q.Limit = 2
		if got := all(t, s, tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %v", tt.q, got)
		}
	}
	for _, err := range s.Records(context.Background(), ledger.Query{Cursor: "post_absent"}) {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

// List returns the records of a query.
func List(ctx context.Context, s interface {
	Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error]
}, q ledger.Query) (posts []ledger.Record, err error) {
	for p, err := range s.Records(ctx, q) {
		if err != nil {
			return nil, err
		}
		posts = append(posts, p)
	}
	return posts, nil
}

// all returns the ids of the records of a query.
func all(t *testing.T, s ledger.Store, q ledger.Query) []string {
	t.Helper()
	posts, err := List(context.Background(), s, q)
	check.Must(t, err)
	ids := make([]string, len(posts))
	for i, p := range posts {
		ids[i] = p.ID
	}
	return ids
}
