package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

func TestSummarize(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	record := func(i int, session, subject, flow, code string, state ledger.State) ledger.Record {
		return ledger.Record{ID: fmt.Sprint(i), Started: began.Add(time.Duration(i) * time.Minute), Session: session,
			Subject: subject, Flow: flow, Code: code, State: state,
			Steps: []ledger.Step{{Name: "gate", Micros: int64(i)}}}
	}
	sum := admin.Summarize([]ledger.Record{ // newest first
		record(60, "b", "", "egress", "egress_denied", ledger.StateRefused),
		record(30, "a", "agent:1", "post", "", ledger.StateForwarded),
		record(20, "a", "", "egress", "egress_denied", ledger.StateRefused),
		record(10, "", "", "connect", "session_required", ledger.StateRefused),
		record(0, "a", "agent:1", "post", "upstream_unreachable", ledger.StateFailed),
	})
	check.WantEqual(t, sum.States, map[ledger.State]int{ledger.StateRefused: 3, ledger.StateForwarded: 1,
		ledger.StateFailed: 1})
	check.WantEqual(t, sum.Posts, map[ledger.State]int{ledger.StateForwarded: 1, ledger.StateFailed: 1})
	check.WantEqual(t, sum.Codes, []admin.Count{{Name: "egress_denied", Calls: 2}, {Name: "session_required", Calls: 1},
		{Name: "upstream_unreachable", Calls: 1}})
	check.WantEqual(t, sum.Agents, []admin.Count{{Name: "", Calls: 2}, {Name: "agent:1", Calls: 2}})
	check.WantEqual(t, sum.Steps, []admin.Latency{{Step: "gate", Calls: 2, Median: 30, P95: 30}})
	if s := sum.Sessions; len(s) != 2 || s[0].ID != "b" || s[1].Calls != 3 || s[1].Posts != 2 ||
		s[1].Agent != "agent:1" || !s[1].First.Equal(began) {
		t.Errorf("%+v", s)
	}
	calls := 0
	for _, span := range sum.Spans {
		for _, n := range span.States {
			calls += n
		}
	}
	check.WantEqual(t, calls, 5)
	check.WantEqual(t, sum.Spans[30].States, map[ledger.State]int{ledger.StateForwarded: 1})
	check.WantEqual(t, admin.Summarize(nil).Calls, 0)
}
