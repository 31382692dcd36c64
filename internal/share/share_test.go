package share_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/actionproof/mediator/internal/share"
)

// fill takes until it is refused, and returns how many it got.
func fill(p *share.Pool, party string, amount int64) (n int64) {
	for p.Take(party, 1, amount) {
		n++
	}
	return n
}

// TestPool: each new party gets less, and one part stays free.
func TestPool(t *testing.T) {
	var p share.Pool
	if got := fill(&p, "a", 1024); got != 512 {
		t.Errorf("the first party got %d of 1024", got)
	}
	for i := range 8 {
		if got := fill(&p, fmt.Sprint(i), 1024); got == 0 {
			t.Errorf("newcomer %d got nothing, with %d taken", i, p.Taken())
		}
	}
	p = share.Pool{}
	for range 1000 {
		for _, party := range []string{"a", "b", "c"} {
			p.Take(party, 1, 1024)
		}
	}
	for _, party := range []string{"a", "b", "c"} {
		p.Give(party, 256)
	}
	if p.Taken() != 0 {
		t.Errorf("%d are left of three parts of a quarter", p.Taken())
	}
	if !p.Take("a", 1, 1) || p.Take("b", 1, 1) || p.Take("b", 1, 0) {
		t.Error("an amount of one is not one party's")
	}
}

// TestTurns: a party that wants a hundred turns does not delay another by more than one.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := share.NewTurns(1, 1)
		done, err := turns.Wait(t.Context(), "hostile")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		held := make(chan func(), 100)
		for range 100 {
			go func() {
				if more, err := turns.Wait(ctx, "hostile"); err == nil {
					held <- more
				}
			}()
		}
		synctest.Wait()
		var other func()
		go func() { other, _ = turns.Wait(ctx, "other") }()
		synctest.Wait()
		done()
		synctest.Wait()
		if other == nil {
			t.Fatal("the other party did not get the next turn")
		}
		other()
		(<-held)()
		cancel()
		synctest.Wait()
	})
}
