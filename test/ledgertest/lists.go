package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
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
	if err := s.Write(context.Background(), nil, records); err != nil {
		t.Fatal(err)
	}
	return ids
}

// wholeLists asks for lists of more records than a store reads at once.
func wholeLists(t *testing.T, s ledger.Store) {
	const n = 1500
	ids := fillStore(t, s, n)
	at := func(i int) time.Time { return Now().Add(time.Duration(i) * time.Second) }
	for _, tt := range []struct {
		name string
		q    ledger.Query
		want func(i int) bool
	}{
		{"all", ledger.Query{}, func(int) bool { return true }},
		{"since", ledger.Query{Since: at(700)}, func(i int) bool { return i >= 700 }},
		{"until", ledger.Query{Until: at(700)}, func(i int) bool { return i < 700 }},
		{"a range of time", ledger.Query{Since: at(100), Until: at(1200)}, func(i int) bool { return i >= 100 && i < 1200 }},
		{"an empty range", ledger.Query{Since: at(700), Until: at(700)}, func(int) bool { return false }},
		{"a flow in a range", ledger.Query{Since: at(100), Until: at(1200), Flow: "egress"}, func(i int) bool { return i >= 100 && i < 1200 && i%7 == 0 }},
		{"few of a state", ledger.Query{State: ledger.StateRefused}, func(i int) bool { return i%100 == 0 }},
		{"few of a state and a flow", ledger.Query{State: ledger.StateRefused, Flow: "egress"}, func(i int) bool { return i%700 == 0 }},
		{"most of a state", ledger.Query{State: ledger.StateForwarded, Until: at(1000)}, func(i int) bool { return i%100 != 0 && i < 1000 }},
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
	for _, err := range s.Records(context.Background(), ledger.Query{Cursor: "post_absent"}) {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}
