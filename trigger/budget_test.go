package trigger_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
)

// TestUnsent checks that an event gets back exactly what it paid for posts that never left.
func TestUnsent(t *testing.T) {
	k := newKit(t)
	c, _ := k.serve(t)
	id, db := k.claimed(t), k.sql(t)
	pay := func() evidence.Binding {
		t.Helper()
		b := binding("create_post")
		must(c.Evidence(t.Context(), id, b))(t)
		return b
	}
	unsent := func(b evidence.Binding) error {
		return c.Unsent(t.Context(), id, runtime, b.Action, b.Hash())
	}
	spent := func(want int) {
		t.Helper()
		var got int
		err := db.QueryRow(`SELECT posts FROM spent WHERE event = ? AND action = 'create_post'`, id).Scan(&got)
		if err != nil && !errors.Is(err, sql.ErrNoRows) || got != want {
			t.Errorf("%d of 1 are spent, want %d: %v", got, want, err)
		}
	}
	refused := func() {
		t.Helper()
		wantCode(t, second(c.Evidence(t.Context(), id, binding("create_post"))), "event_closed")
	}

	spent(0)
	first := pay()
	spent(1)
	wantCode(t, c.Unsent(t.Context(), id, "another", first.Action, first.Hash()), "event_closed")
	wantCode(t, c.Unsent(t.Context(), "evt_none", runtime, first.Action, first.Hash()), "not_found")
	for name, b := range map[string]evidence.Binding{"not paid for": binding("create_post"),
		"another action": {Action: "delete_post"}} {
		if err := unsent(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	spent(1)
	refused()

	for range 2 { // repeating it changes nothing
		if err := unsent(first); err != nil {
			t.Fatal(err)
		}
		spent(0)
	}
	k.restart(t)
	c, _ = k.serve(t)
	_, err := c.Evidence(t.Context(), id, first)
	wantCode(t, err, "event_closed") // the same post is paid for once
	last := pay()
	spent(1)
	refused()
	if err := unsent(first); err != nil { // known: the other post stays paid
		t.Fatal(err)
	}
	spent(1)

	for range 7 {
		if err := unsent(last); err != nil {
			t.Fatal(err)
		}
		last = pay()
	}
	wantCode(t, unsent(last), "event_closed")
	spent(1)
	refused()

	k.pay(t, id, "delete_post")
	must(c.Done(t.Context(), id, runtime))(t)
	wantCode(t, unsent(last), "event_closed")
}

// TestUnsentWhileSigning checks that one payment is refunded once, also if its sidecar calls the post unsent before the
// signing fails.
func TestUnsentWhileSigning(t *testing.T) {
	k := newKit(t)
	id, b := k.claimed(t), binding("create_post")
	good := k.options.Origin
	k.options.Origin = issuer(t, evidence.TriggerOriginProofKind(), keyDuring(func() {
		if err := k.Unsent(t.Context(), id, runtime, b.Action, b.Hash()); err != nil {
			t.Error(err)
		}
	}), "source-verifier", "trigger-mediator", k.clock.now)
	k.restart(t)
	wantCode(t, second(k.Evidence(t.Context(), id, b)), "custody_unavailable")
	k.options.Origin = good
	k.restart(t)
	k.pay(t, id, b.Action)
	wantCode(t, k.ask(t, id), "event_closed")
}

// keyDuring is a broken key that first does something.
type keyDuring func()

func (d keyDuring) Current(ctx context.Context) (custody.Version, error) {
	d()
	return brokenKey{}.Current(ctx)
}

func (keyDuring) Properties() custody.Properties { return custody.Properties{} }
