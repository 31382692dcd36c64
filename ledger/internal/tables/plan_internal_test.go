package tables

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/db/sqlite"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

func TestPlans(t *testing.T) {
	f, err := sqlite.OpenFile(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), Schema)
	check.Must(t, err)
	defer f.Close()
	for _, tt := range []struct {
		name string
		q    ledger.Query
		want string
	}{
		{"all", ledger.Query{}, "USING INDEX posts_started (started>? AND started<?)"},
		{"all, oldest first", ledger.Query{OldestFirst: true}, "USING INDEX posts_started (started>? AND started<?)"},
		{"of a session", ledger.Query{Session: "s"},
			"USING INDEX posts_session (session=? AND started>? AND started<?)"},
		{"of a session, oldest first", ledger.Query{Session: "s", OldestFirst: true},
			"USING INDEX posts_session (session=? AND started>? AND started<?)"},
		{"of a session and state", ledger.Query{Session: "s", State: ledger.StateRefused},
			"USING INDEX posts_session (session=? AND started>? AND started<?)"},
		{"of a state", ledger.Query{State: ledger.StateRefused, Flow: "post"},
			"USING INDEX posts_state (state=? AND started>? AND started<?)"},
		{"of a state, oldest first", ledger.Query{State: ledger.StateForwarding, OldestFirst: true},
			"USING INDEX posts_state (state=? AND started>? AND started<?)"},
		{"forwarded", ledger.Query{State: ledger.StateForwarded},
			"USING INDEX posts_started (started>? AND started<?)"},
		{"of a key", ledger.Query{Key: "k", State: ledger.StateRefused},
			"USING INDEX posts_keys (started>? AND started<?)"},
		{"of a key, oldest first", ledger.Query{Key: "k", OldestFirst: true},
			"USING INDEX posts_keys (started>? AND started<?)"},
		{"with keys", ledger.Query{Keys: true, Session: "s"}, "USING INDEX posts_keys (started>? AND started<?)"},
		{"without artifacts", ledger.Query{Bare: true}, "USING INDEX posts_started (started>? AND started<?)"},
		{"of a flow", ledger.Query{Flow: "post"}, "USING INDEX posts_started (started>? AND started<?)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []any{0, 0, 0, 1, tt.q.Session, tt.q.State, tt.q.Flow}
			wantPlan(t, f, tt.want, Statement(tt.q, ByKeys, "0, 1, 2"), args...)
		})
	}
	t.Run("in flight, as a start asks", func(t *testing.T) {
		wantPlan(t, f, "USING INDEX posts_state (state=?)",
			`SELECT record FROM posts WHERE state = 'forwarding' AND state <> 'forwarded' AND instance = $1`, "")
	})
	t.Run("to export", func(t *testing.T) {
		wantPlan(t, f, "SEARCH unexported USING COVERING INDEX unexported_instance (instance=?)", selectUnexported, "", 1)
	})
	t.Run("old", func(t *testing.T) {
		wantPlan(t, f, "USING INDEX posts_started (started>? AND started<?)", selectOld, 0, 1, 1, 1)
	})
}

// wantPlan holds a statement to an index, which also has to have its order: nothing is sorted.
func wantPlan(t *testing.T, f *sqlite.File, want, statement string, args ...any) {
	t.Helper()
	rows, err := f.Read().Query(`EXPLAIN QUERY PLAN `+statement, args...)
	check.Must(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		check.Must(t, rows.Scan(&id, &parent, &unused, &step))
		plan = append(plan, step)
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
	if len(plan) == 0 || !strings.HasSuffix(plan[0], want) || strings.Contains(strings.Join(plan, ""), "TEMP") {
		t.Errorf("the plan is %q, want %q", plan, want)
	}
}
