package reputation_test

import (
	"context"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/test/nodetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var must = check.Must

// together returns two nodes with one PostgreSQL database.
func together(t *testing.T, k *gatetest.Kit, edits ...func(*reputation.Options)) (both [2]*nodetest.Node) {
	t.Helper()
	dsn := pgtest.Database(t)
	for i := range both {
		s, err := store.Open(context.Background(), "", dsn)
		must(t, err)
		t.Cleanup(func() { s.Close() })
		both[i] = nodetest.New(t, k, s, edits...)
	}
	return both
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	check.WantCode(t, err, code)
	if !problem.Known(code) {
		t.Errorf("the code %s is not in the table", code)
	}
}
