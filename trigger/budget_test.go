package trigger_test

import (
	"testing"

	"github.com/actionproof/mediator/evidence"
)

// TestUnsent checks that an event gets back exactly what it paid for posts that never left.
func TestUnsent(t *testing.T) {
	k := newKit(t)
	c, _ := k.serve(t)
	id := k.claimed(t)
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
		if b := must(c.Budget(t.Context(), id))(t); b.Posts != 1 || b.Spent["create_post"] != want {
			t.Errorf("the budget is %+v, want %d spent of 1", b, want)
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
	wantCode(t, second(c.Budget(t.Context(), "evt_none")), "not_found")
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

// TestABudgetThatCannotBeRead checks that an unreadable budget is an error, not an unspent budget.
func TestABudgetThatCannotBeRead(t *testing.T) {
	for _, broken := range []string{
		`DROP TABLE spent`,
		`INSERT INTO spent (event, action, posts) SELECT id, 'create_post', 'many' FROM events`,
	} {
		k := newKit(t)
		id := k.claimed(t)
		k.sql(t, broken)
		if b, err := k.Budget(t.Context(), id); err == nil {
			t.Errorf("%s: %+v", broken, b)
		} else {
			wantCode(t, err, "ledger_unavailable")
		}
	}
}
