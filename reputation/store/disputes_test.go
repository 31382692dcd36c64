package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
)

const agent = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw"

// add adds a violation and a signal to the log.
func add(t *testing.T, turn *store.Turn, n int64) {
	t.Helper()
	hash := fmt.Sprintf("%064x", n)
	must(t, turn.Add(dispute.Entry{At: n, Violation: &dispute.Violation{Agent: agent, Rule: dispute.RuleRate,
		Document: hash}}, store.Document{ID: fmt.Sprint("d", n), Text: "text"}))
	must(t, turn.Add(dispute.Entry{At: n, Signal: &dispute.Published{SignalID: fmt.Sprint("w", n), Agent: agent,
		Document: hash, Horizon: dispute.HorizonShort, Written: n, Closes: 100 - n, Basis: dispute.BasisDeclared}}))
}

func TestTurns(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		var tree translog.Tree
		var steps []dispute.Step
		for n := int64(1); n <= 6; n += 2 {
			must(t, []*store.Store{one, two}[n/2%2].Turn(ctx, func(turn *store.Turn) error {
				add(t, turn, n)
				add(t, turn, n+1)
				steps = append(steps, turn.Taken()...)
				return nil
			}))
		}
		away := errors.New("away")
		wantErr(t, one.Turn(ctx, func(turn *store.Turn) error {
			add(t, turn, 7)
			return away
		}), away)
		texts, err := two.Steps(ctx, 1, 99)
		must(t, err)
		for i, s := range steps {
			var completed []tlog.Hash
			tree, completed = tree.With(s.Text)
			check.WantEqual(t, texts[i], string(s.Text))
			for place, h := range completed {
				got, err := one.Completed(ctx, place, []int64{int64(i) + 1})
				must(t, err)
				check.WantEqual(t, got, []tlog.Hash{h})
			}
			if _, err := one.Completed(ctx, len(completed), []int64{int64(i) + 1}); err == nil {
				t.Error("a hash that was not completed")
			}
		}
		check.WantEqual(t, len(texts), 12)
		rows := two.Look(ctx)
		book, err := dispute.Open(rows)
		must(t, err)
		check.WantEqual(t, book.Tree(), tree)
		waiting, err := rows.Queued("signals", 98, 2)
		must(t, err)
		check.WantEqual(t, waiting, []dispute.Waiting{{ID: "signal/w6", Due: 94}, {ID: "signal/w5", Due: 95}})
		late, err := rows.Since(5)
		must(t, err)
		slices.Sort(late)
		check.WantEqual(t, late, []string{"agent/" + agent, "log", "owner/did:key", "signal/w6"})
		found, err := rows.Read("signal/w1", "signal/w7", "\x00", "\xff")
		must(t, err)
		check.WantEqual(t, len(found) == 1 && found[0].ID == "signal/w1" && found[0].Text != "", true)
		document, err := one.Document(ctx, "d3")
		must(t, err)
		check.WantEqual(t, document, "text")
		_, err = one.Document(ctx, "d7")
		wantErr(t, err, store.ErrNotFound)
		entries, err := two.Entries(ctx, agent, 1)
		must(t, err)
		log := accrual.Empty(agent)
		for _, e := range entries {
			log = log.With([]byte(e.Text))
			check.WantEqual(t, accrual.Log{Entries: e.Number, Head: e.Head}, log)
		}
		check.WantEqual(t, log.Entries, int64(6))
	})
}

// Turns come one after the other, and behind what is entered in an agent's log meanwhile.
func TestTurnsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		check.WantEqual(t, check.Together(t, 24, func(i int) error {
			s := []*store.Store{one, two}[i%2]
			return s.Turn(ctx, func(turn *store.Turn) error {
				add(t, turn, turn.Log().Entries+1)
				return nil
			})
		}, nil), 24)
		entries, err := one.Entries(ctx, agent, 1)
		must(t, err)
		steps, err := one.Steps(ctx, 1, 99)
		must(t, err)
		check.WantEqual(t, []int{len(steps), len(entries)}, []int{48, 24})
	})
}

// A replay has other transactions than the log had, and finds the same rows.
func TestSinceInTurn(t *testing.T) {
	each(t, func(t *testing.T, s, _ *store.Store) {
		ctx := t.Context()
		setBack := func(turn *store.Turn, at int64) {
			must(t, turn.Add(dispute.Entry{At: at, SetBack: &dispute.SetBack{Token: "e.e.e"}}))
		}
		must(t, s.Turn(ctx, func(turn *store.Turn) error {
			add(t, turn, 7)
			return nil
		}))
		must(t, s.Turn(ctx, func(turn *store.Turn) error {
			setBack(turn, 3)
			add(t, turn, 6)
			setBack(turn, 5)
			return nil
		}))
		rows := s.Look(ctx)
		late, err := rows.Since(3)
		must(t, err)
		slices.Sort(late)
		check.WantEqual(t, late, []string{"agent/" + agent, "log", "owner/did:key", "signal/w6"})
		entries, err := s.Audit(ctx, opened(t)(store.Open(ctx, filepath.Join(t.TempDir(), "empty.db"), "")))
		must(t, err)
		check.WantEqual(t, entries, int64(6))
	})
}

// A row that could not be read is not missing.
func TestFetchFails(t *testing.T) {
	s := opened(t)(store.Open(t.Context(), filepath.Join(t.TempDir(), "reputation.db"), ""))
	must(t, s.Turn(t.Context(), func(turn *store.Turn) error {
		add(t, turn, 7)
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Turn(ctx, func(turn *store.Turn) error {
		cancel()
		if err := turn.Fetch("signal/w7"); err == nil {
			t.Error("a cancelled reading succeeds")
		}
		if _, found := turn.Signal("w7"); found {
			t.Error("it was read")
		}
		return turn.Err()
	})
	check.WantCode(t, err, "ledger_unavailable", "read the state of the log of disputes")
}
