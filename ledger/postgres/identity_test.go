package postgres_test

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	at := new(places)
	open := func(t *testing.T, place string) ledger.Identified { return at.open(t, place, time.Hour, nil) }
	ledgertest.RunIdentity(t, open,
		func(t *testing.T, place string) ledger.Identified {
			at.dsns.Delete(place)
			return open(t, place)
		},
		func(t *testing.T, place string) (back func()) {
			dsn, _ := at.dsns.Load(place)
			kept := server(t).Copy(t, dsn.(string))
			return func() { at.dsns.Store(place, kept) }
		})
}

func TestReplicasAcceptOnce(t *testing.T) {
	dsn := database(t)
	last := []ledger.Identity{{ID: "before", Mark: 70}, {ID: "before", Mark: 71}}
	l := open(t, dsn, "one")
	follows := func(s ledger.Identified, last ledger.Identity) bool {
		t.Helper()
		now, err := s.Identity(t.Context())
		check.Must(t, err)
		follows, err := ledger.Follows(t.Context(), s, now, last)
		check.Must(t, err)
		return follows
	}
	if follows(l, last[0]) || follows(l, last[1]) {
		t.Fatal("a ledger that nobody has accepted is taken for another")
	}
	now, err := l.Identity(t.Context())
	check.Must(t, err)
	check.Must(t, l.Accept(t.Context(), ledger.Acceptance{At: ledgertest.Now(), Was: last[0], Found: now},
		ledgertest.Now()))
	two := open(t, dsn, "two")
	if !follows(two, last[0]) || !follows(two, last[1]) {
		t.Error("the acceptance does not count for another sidecar")
	}
	last[1].Accepted = 1 // one that knows of an acceptance in the ledger before
	if follows(two, last[1]) {
		t.Error("an acceptance in another ledger counts")
	}
}
