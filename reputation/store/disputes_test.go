package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
)

func step(number int64) store.Step {
	return store.Step{Number: number, Head: fmt.Sprint("head ", number), Text: fmt.Sprint("step ", number)}
}

func published(number int64, id, agent string) store.Step {
	s := step(number)
	s.Signal = &store.Signal{ID: id, Agent: agent, Document: "{}"}
	return s
}

func disputed(number int64, id, challenger, target string) store.Step {
	s := step(number)
	s.Dispute = &store.Dispute{ID: id, Challenger: challenger, Target: target, Signal: "s" + target[1:],
		Document: "{}"}
	return s
}

func proceed(t *testing.T, s *store.Store, steps ...store.Step) {
	t.Helper()
	for _, one := range steps {
		must(t, s.Proceed(t.Context(), one))
	}
}

func TestDisputes(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		proceed(t, one, published(1, "s1", "a1"), published(2, "s2", "a2"), published(3, "s3", "b1"))
		proceed(t, two, disputed(4, "d1", "b1", "a1"), disputed(5, "d2", "a1", "b1"), disputed(6, "d3", "a2", "b1"))
		got, err := one.Signal(ctx, "s2")
		must(t, err)
		if got.Number != 2 || got.Agent != "a2" || got.Final || got.Document != "{}" ||
			got.Step != "step 2" {
			t.Errorf("%+v", got)
		}
		dispute, err := one.Dispute(ctx, "d2")
		must(t, err)
		if dispute.Number != 5 || dispute.Challenger != "a1" || dispute.Target != "b1" || dispute.Signal != "s1" ||
			!dispute.Provisional || dispute.Resolved != 0 || dispute.Token != "" || dispute.Document != "{}" ||
			dispute.Reviewing || dispute.Step != "step 5" || dispute.End != "" {
			t.Errorf("%+v", dispute)
		}
		for _, missing := range []error{
			func() error {
				_, err := one.Signal(ctx, "d1")
				return err
			}(), func() error { _, err := one.Dispute(ctx, "s1"); return err }(),
		} {
			wantErr(t, missing, store.ErrNotFound)
		}
		end, over, looked := step(7), step(8), step(9)
		looked.Reviewing = "d1"
		end.Closed, over.Resolved = "s1", &store.Resolved{ID: "d3", Token: "token"}
		over.Entries = []store.Entry{{Agent: "a2", Number: 1, Head: "h", Text: "e"},
			{Agent: "b1", Number: 1, Head: "h", Text: "e"}}
		proceed(t, one, end, over, looked)
		if got, err := two.Signal(ctx, "s1"); err != nil || !got.Final {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := two.Dispute(ctx, "d3"); err != nil || got.Resolved != 8 || got.Provisional || got.Token != "token" ||
			got.End != "step 8" {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := two.Dispute(ctx, "d1"); err != nil || !got.Reviewing || got.Resolved != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		for _, agent := range []string{"a2", "b1"} {
			if entries, err := two.Entries(ctx, agent, 1); err != nil || len(entries) != 1 || entries[0].Text != "e" {
				t.Errorf("%+v, %v", entries, err)
			}
		}
		steps, err := two.Steps(ctx, 3, 4)
		must(t, err)
		if len(steps) != 4 || steps[0].Number != 3 || steps[3].Head != "head 6" || steps[3].Text != "step 6" {
			t.Errorf("%+v", steps)
		}
	})
}

func TestStepsThatAreRefused(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		proceed(t, one, published(1, "s1", "a1"), disputed(2, "d1", "b1", "a1"))
		closing, resolving := step(3), step(4)
		closing.Closed, resolving.Resolved = "s1", &store.Resolved{ID: "d1", Token: "t"}
		resolving.Entries = []store.Entry{{Agent: "a1", Number: 1, Head: "h", Text: "e"}}
		proceed(t, two, closing, resolving)
		for name, row := range map[string]struct {
			edit func(*store.Step)
			want error
		}{
			"a number that there is": {func(s *store.Step) { s.Number = 4 }, store.ErrMoved},
			"a signal that there is": {func(s *store.Step) {
				s.Signal = published(5, "s1", "b1").Signal
			}, store.ErrDuplicate},
			"a dispute that there is": {func(s *store.Step) {
				s.Dispute = disputed(5, "d1", "c1", "a1").Dispute
			}, store.ErrDuplicate},
			"a window that is closed": {func(s *store.Step) { s.Closed = "s1" }, store.ErrMoved},
			"a window of no signal":   {func(s *store.Step) { s.Closed = "s2" }, store.ErrMoved},
			"a dispute that is resolved": {func(s *store.Step) {
				s.Resolved = &store.Resolved{ID: "d1", Token: "u"}
			}, store.ErrMoved},
			"a look at what is resolved": {func(s *store.Step) { s.Reviewing = "d1" }, store.ErrMoved},
			"no dispute": {func(s *store.Step) {
				s.Resolved = &store.Resolved{ID: "d2", Token: "u"}
			}, store.ErrMoved},
			"an entry of a log that has it": {func(s *store.Step) {
				s.Entries = []store.Entry{{Agent: "a1", Number: 1}}
			}, store.ErrMoved},
		} {
			bad := published(5, "s5", "c1")
			row.edit(&bad)
			if err := two.Proceed(ctx, bad); !errors.Is(err, row.want) {
				t.Errorf("%s: %v, want %v", name, err, row.want)
			}
		}
		if _, err := one.Signal(ctx, "s5"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a part of a refused step was kept: %v", err)
		}
		if steps, err := one.Steps(ctx, 1, 9); err != nil || len(steps) != 4 {
			t.Errorf("%+v, %v", steps, err)
		}
	})
}

func TestStepsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, one, two *store.Store) {
		ctx := t.Context()
		for number := range int64(5) {
			check.WantEqual(t, check.Together(t, 8, func(i int) error {
				return []*store.Store{one, two}[i%2].Proceed(ctx, published(number+1, fmt.Sprint("s", number, i), "a1"))
			}, store.ErrMoved), 1)
		}
		if all, err := one.Steps(ctx, 1, 99); err != nil || len(all) != 5 {
			t.Errorf("%d steps, %v", len(all), err)
		}
	})
}
