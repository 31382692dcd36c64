package ledger

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPlans holds each list to the index that answers it without a look at other records.
func TestPlans(t *testing.T) {
	l, err := Open(context.Background(), filepath.Join(t.TempDir(), "ledger.db"), Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		name string
		q    Query
		want string
	}{
		{"all", Query{}, "SCAN posts USING INDEX posts_started"},
		{"of a session", Query{Session: "s"}, "USING INDEX posts_session (session=?)"},
		{"of a session and state", Query{Session: "s", State: StateRefused}, "USING INDEX posts_session (session=?)"},
		{"of a state", Query{State: StateRefused, Flow: "post"}, "USING INDEX posts_state (state=?)"},
		{"in flight, as a start asks", Query{State: StateForwarding}, "USING INDEX posts_state (state=?)"},
		{"older ones of a state", Query{State: StateForwarding, Before: "post_1"}, "USING INDEX posts_state (state=? AND started<?)"},
		{"older ones", Query{Before: "post_1"}, "USING INDEX posts_started (started<?)"},
		{"older ones of a session", Query{Session: "s", Before: "post_1"}, "USING INDEX posts_session (session=? AND started<?)"},
		{"forwarded", Query{State: StateForwarded}, "SCAN posts USING INDEX posts_started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			where, args := tt.q.where()
			rows, err := l.db.Read().Query(`EXPLAIN QUERY PLAN SELECT record FROM posts WHERE `+where+newestFirst+` LIMIT ?`, append(args, 1)...)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var id, parent, unused int
			var plan string
			if !rows.Next() || rows.Scan(&id, &parent, &unused, &plan) != nil {
				t.Fatalf("no plan: %v", rows.Err())
			}
			if !strings.HasSuffix(plan, tt.want) {
				t.Errorf("the plan is %q, want %q", plan, tt.want)
			}
			if err := rows.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
