package ledgertest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// signed returns a token with a kid, as far as a ledger reads it.
func signed(kid string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"EdDSA","kid":%q}`, kid)) + ".e30.AA"
}

// RunKeyUses runs the suite of what is counted of signing keys, on a store that keeps records for an hour. open is that of [Run].
func RunKeyUses(t *testing.T, open func(t *testing.T, place string) ledger.Store) {
	ctx := context.Background()
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	at := func(minute int) time.Time { return Now().Add(time.Duration(minute) * time.Minute) }
	by := func(id string, minute int, kids ...string) ledger.Record {
		r := ledger.Record{ID: id, Flow: "post", Started: at(minute)}
		for _, kid := range kids {
			r.Artifacts = append(r.Artifacts, ledger.Artifact{Name: "grant", Token: signed(kid)})
		}
		return r
	}
	ended := func(r ledger.Record, state ledger.State) ledger.Record {
		r.State = state
		return r
	}
	place := t.TempDir()
	s := open(t, place)
	wants := func(want ...ledger.KeyUse) {
		t.Helper()
		got, err := s.KeyUses(ctx)
		must(err)
		if !got.Since.Equal(Now()) || !slices.Equal(got.Keys, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
	wants()
	first, again, failed, cut := by("post_1", 1, "a:v1", "b:v1", "a:v1"), by("post_2", 3, "a:v2", "b:v1"), by("post_3", 4, "b:v1"), by("post_4", 5, "a:v2")
	must(s.Begin(ctx, first), s.Begin(ctx, again), s.Begin(ctx, failed), s.Begin(ctx, cut))
	wants() // whether they went out is not known yet
	must(s.Finish(ctx, ended(again, ledger.StateForwarded)), s.Finish(ctx, ended(first, ledger.StateForwarded)), s.Finish(ctx, ended(failed, ledger.StateFailed)))
	if err := s.Finish(ctx, ended(first, ledger.StateForwarded)); !errors.Is(err, ledger.ErrState) {
		t.Fatal(err)
	}
	refused := by("post_5", 6, "stranger:v1") // nothing of what it brought was verified
	must(s.Add(ctx, ended(refused, ledger.StateRefused)))
	a1, b1 := ledger.KeyUse{KeyID: "a:v1", First: at(1), Last: at(1), Posts: 1}, ledger.KeyUse{KeyID: "b:v1", First: at(1), Last: at(4), Posts: 2}
	wants(a1, ledger.KeyUse{KeyID: "a:v2", First: at(3), Last: at(3), Posts: 1}, b1)

	// A receipt that is written again, and a token that names no key.
	one, two := receipt("ses_1", 1, at(7)), receipt("ses_1", 2, at(8))
	one.Token, two.Token = signed("r:v1"), signed("r:v1")+".2"
	must(s.AddReceipts(ctx, one), s.Write(ctx, nil, nil, one, two, receipt("ses_1", 3, at(9))))
	// The post in flight counts when the process is back, and nothing is forgotten with the records.
	must(s.Close())
	s = open(t, place)
	must(s.Prune(ctx, Now().Add(24*time.Hour)))
	wants(a1, ledger.KeyUse{KeyID: "a:v2", First: at(3), Last: at(5), Posts: 2}, b1, ledger.KeyUse{KeyID: "r:v1", First: at(7), Last: at(8)})
}
