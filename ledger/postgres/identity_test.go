package postgres_test

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

func TestIdentity(t *testing.T) {
	server := pgtest.Start(t)
	databases := make(map[string]string)
	at := func(t *testing.T, place string) ledger.Identified {
		t.Helper()
		if databases[place] == "" {
			databases[place] = server.Database(t)
		}
		o := options("one")
		o.Retention = time.Hour
		l, err := postgres.Open(t.Context(), databases[place], o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	ledgertest.RunIdentity(t, at,
		func(t *testing.T, place string) ledger.Identified {
			databases[place] = ""
			return at(t, place)
		},
		func(t *testing.T, place string) (back func()) {
			kept := server.Copy(t, databases[place])
			return func() { databases[place] = kept }
		})
}

// TestReplicasAcceptOnce: what one sidecar has been told to accept, the others that share the database accept too.
func TestReplicasAcceptOnce(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	last := []ledger.Identity{{ID: "before", Mark: 70}, {ID: "before", Mark: 71}}
	l := open(t, dsn, "one")
	follows := func(s ledger.Identified, last ledger.Identity) bool {
		t.Helper()
		now, err := s.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		follows, err := ledger.Follows(t.Context(), s, now, last)
		if err != nil {
			t.Fatal(err)
		}
		return follows
	}
	if follows(l, last[0]) || follows(l, last[1]) {
		t.Fatal("a ledger that nobody has accepted is taken for another")
	}
	now, err := l.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Accept(t.Context(), ledger.Acceptance{At: ledgertest.Now(), Was: last[0], Found: now},
		ledgertest.Now()); err != nil {
		t.Fatal(err)
	}
	two := open(t, dsn, "two")
	if !follows(two, last[0]) || !follows(two, last[1]) {
		t.Error("the acceptance does not count for another sidecar")
	}
	last[1].Accepted = 1 // one that knows of an acceptance in the ledger before
	if follows(two, last[1]) {
		t.Error("an acceptance in another ledger counts")
	}
}
