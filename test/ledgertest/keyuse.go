package ledgertest

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// signed returns a token with a kid that a ledger reads.
func signed(kid string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"EdDSA","kid":%q}`, kid)) + ".e30.AA"
}

// runKeyUses tests the counts of records by signing key.
func runKeyUses(t *testing.T, open func(t *testing.T, place string) ledger.Store) {
	ctx := context.Background()
	at := func(minute int) time.Time { return Now().Add(time.Duration(minute) * time.Minute) }
	by := func(id string, minute int, kids ...string) ledger.Record {
		r := ledger.Record{ID: id, Flow: "post", State: ledger.StateForwarded, Started: at(minute)}
		for _, kid := range kids {
			r.Artifacts = append(r.Artifacts, ledger.Artifact{Name: "grant", Token: signed(kid)})
		}
		return r
	}
	s := open(t, t.TempDir())
	wants := func(want ...ledger.KeyUse) {
		t.Helper()
		got, err := s.KeyUses(ctx)
		check.Must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
	wants()
	check.Must(t, s.Begin(ctx, by("post_1", 1, "a:v1", "b:v1", "a:v1")), s.Begin(ctx, by("post_2", 5, "b:v1", "a:v2")),
		s.Write(ctx, nil, []ledger.Record{by("post_3", 4, "b:v1"), by("post_4", 3, "a:v2", "b:v1"), by("read", 6)}))
	wants(ledger.KeyUse{KeyID: "a:v1", First: at(1), Last: at(1), Posts: 1},
		ledger.KeyUse{KeyID: "a:v2", First: at(3), Last: at(5), Posts: 2},
		ledger.KeyUse{KeyID: "b:v1", First: at(1), Last: at(5), Posts: 4})
	check.Must(t, s.Finish(ctx, by("post_1", 1)), s.Prune(ctx, at(4).Add(time.Hour)))
	wants(ledger.KeyUse{KeyID: "a:v2", First: at(5), Last: at(5), Posts: 1},
		ledger.KeyUse{KeyID: "b:v1", First: at(4), Last: at(5), Posts: 2})
}

// runKeyLists tests lists by signing key.
func runKeyLists(t *testing.T, open func(t *testing.T, place string) ledger.Store) {
	ctx := context.Background()
	place := t.TempDir()
	s := open(t, place)
	const n = 600
	want := make(map[string][]string) // ids by key, the oldest first
	var records []ledger.Record
	for i := range n {
		r := ledger.Record{ID: fmt.Sprintf("post_%05d", i), Flow: "post", State: ledger.StateForwarded, Session: "ses_1",
			Started: Now().Add(time.Duration(i) * time.Second)}
		kids := []string{fmt.Sprint("b:v", 1+i/250), fmt.Sprint("a:v", 1+i/100)}
		switch i % 5 {
		case 1:
			r.State, kids = ledger.StateRefused, kids[:1]
		case 2:
			r.Flow, kids = "egress", nil
		case 3:
			kids[0] = "b/u1:v1" // a key that one process has for itself
		}
		r.Artifacts = append(r.Artifacts, ledger.Artifact{Name: "challenge", Token: signed("gate:v1")})
		for _, kid := range append(kids, kids...) {
			r.Artifacts = append(r.Artifacts, ledger.Artifact{Name: "grant", Token: signed(kid)})
		}
		for _, kid := range kids {
			want[kid] = append(want[kid], r.ID)
			name, _, _ := strings.Cut(kid, ":")
			want[name] = append(want[name], r.ID)
			if shared, _, own := strings.Cut(name, "/"); own {
				want[shared] = append(want[shared], r.ID)
			}
		}
		records = append(records, r)
	}
	begun := records[n-1]
	check.Must(t, s.Write(ctx, nil, records[:n-1]), s.Begin(ctx, begun), s.Finish(ctx, begun))
	finds := func(oldest int) {
		t.Helper()
		kept := func(ids []string, from, until int) (out []string) {
			for _, id := range ids {
				if id >= fmt.Sprintf("post_%05d", max(from, oldest)) && id < fmt.Sprintf("post_%05d", until) {
					out = append(out, id)
				}
			}
			return out
		}
		for _, key := range []string{"a:v1", "a:v6", "b:v1", "b:v3", "a", "b", "b/u1", "b/u1:v1", "b/u", "a:v", "a:v7",
			"gate", "gate:v1", "b:v1x"} {
			all := kept(want[key], 0, n)
			newest := slices.Clone(all)
			slices.Reverse(newest)
			wantIDs(t, s, ledger.Query{Key: key, OldestFirst: true}, all)
			wantIDs(t, s, ledger.Query{Key: key}, newest)
			wantIDs(t, s, ledger.Query{Key: key, Keys: true, Limit: 7}, newest[:min(7, len(newest))])
			wantIDs(t, s,
				ledger.Query{Key: key, OldestFirst: true, Since: Now().Add(90 * time.Second), Until: Now().Add(260 * time.Second)},
				kept(want[key], 90, 260))
			wantIDs(t, s, ledger.Query{Key: key, OldestFirst: true, State: ledger.StateRefused, Session: "ses_1"},
				slices.DeleteFunc(slices.Clone(all), func(id string) bool {
					return !strings.HasSuffix(id, "1") && !strings.HasSuffix(id, "6")
				}))
			if len(newest) > 300 {
				wantIDs(t, s, ledger.Query{Key: key, Cursor: newest[280]}, newest[281:])
			}
		}
	}
	finds(0)
	list, err := List(ctx, s, ledger.Query{Keys: true, OldestFirst: true, Since: Now().Add(250 * time.Second), Limit: 2})
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	first := ledger.Record{ID: "post_00250", Flow: "post", State: ledger.StateForwarded, Session: "ses_1",
		Started: Now().Add(250 * time.Second), Keys: []string{"a:v3", "b:v2"}}
	if fmt.Sprintf("%+v", list[0]) != fmt.Sprintf("%+v", first) || !slices.Equal(list[1].Keys, []string{"b:v2"}) {
		t.Errorf("got %+v, want %+v first", list, first)
	}
	check.Must(t, s.Prune(ctx, Now().Add(time.Hour+300*time.Second)))
	finds(300)
	check.Must(t, s.Close())
	s = open(t, place)
	finds(300)
}

// wantIDs demands which records a query finds.
func wantIDs(t *testing.T, s ledger.Store, q ledger.Query, want []string) {
	t.Helper()
	if got := all(t, s, q); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Errorf("%+v: got %d records, want %d: %.200s, %.200s", q, len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
	}
}
