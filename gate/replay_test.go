package gate_test

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestLedgerOnce(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	path := filepath.Join(t.TempDir(), "used.db")
	open := func() (*sqlite.Ledger, gate.Consume) {
		l, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: k.Clock.Now})
		check.Must(t, err)
		return l, l.Consume
	}
	l, consume := open()
	chain := k.Chain(t)
	admitted, err := gatetest.Admit(t.Context(), k.Gate, chain, consume)
	check.Must(t, err)
	post := func(consume gate.Consume) error {
		a, err := k.Gate.Authorize(t.Context(), gate.AuthorizeRequest{
			Capability: admitted.Capability, RequestProof: k.Proof(t, admitted.Capability, gatetest.Token),
			Binding: gatetest.Binding(), AccessTokenHash: evidence.HashBytes([]byte(gatetest.Token)),
		})
		if err != nil {
			t.Errorf("a valid post is not authorised: %v", err)
			return err
		}
		return consume(t.Context(), a.Keys...)
	}
	var made, replayed atomic.Int32
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			switch err := post(consume); {
			case err == nil:
				made.Add(1)
			case errors.Is(err, ledger.ErrConsumed):
				replayed.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 || replayed.Load() != 63 {
		t.Errorf("%d made, %d replayed", made.Load(), replayed.Load())
	}
	check.Must(t, l.Close())

	l, consume = open()
	defer l.Close()
	gatetest.WantCode(t, post(consume), "replayed")
	_, err = gatetest.Admit(t.Context(), k.Gate, chain, consume)
	gatetest.WantCode(t, err, "replayed")
	if _, err := gatetest.Admit(t.Context(), k.Gate, k.Chain(t), consume); err != nil {
		t.Errorf("a fresh chain is refused: %v", err)
	}
}
