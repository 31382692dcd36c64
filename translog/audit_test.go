package translog_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"filippo.io/torchwood"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// entry is one of a played day: what happened in which minute.
type entry struct {
	kind   leaf.Kind
	name   string
	minute int
}

// day is a log of two hours: a heartbeat each minute, one session, and a post every ten minutes.
func day() (all []entry) {
	for minute := range 120 {
		all = append(all, entry{leaf.Heartbeat, "", minute})
		switch {
		case minute == 5:
			all = append(all, entry{leaf.SessionOpened, "ses_1", minute})
		case minute == 115:
			all = append(all, entry{leaf.SessionClosed, "ses_1", minute})
		case minute%10 == 0:
			id := fmt.Sprintf("post_%d", minute)
			all = append(all, entry{leaf.Intent, id, minute}, entry{leaf.Outcome, id, minute})
		}
	}
	return all
}

// publish makes the log of a day. Entries that are in made stay as they are there.
func publish(t *testing.T, all []entry, made map[entry]leaf.Opening) (from torchwood.TileReader, proofs [][]byte) {
	t.Helper()
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	for i, e := range all {
		d := leaf.Document{Post: e.name}
		if e.kind == leaf.SessionOpened || e.kind == leaf.SessionClosed {
			d = leaf.Document{Session: e.name}
		}
		if _, ok := made[e]; !ok {
			made[e] = leaf.New(e.kind, now.Add(time.Duration(e.minute)*time.Minute), d)
		}
		check.Must(t, store.AddLeaves(t.Context(), made[e].Leaf(fmt.Sprint(i))))
	}
	check.Must(t, start(t, store, policy(t, "quorum none")).Publish(t.Context()))
	for i, e := range all {
		p, err := translog.Prove(t.Context(), store, leaf.ID(e.kind, fmt.Sprint(i)))
		check.Must(t, err)
		proofs = append(proofs, p)
	}
	server := httptest.NewServer(translog.Handler(store))
	t.Cleanup(server.Close)
	fetcher, err := torchwood.NewTileFetcher(server.URL,
		torchwood.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	check.Must(t, err)
	return fetcher, proofs
}

// TestAudit changes a log and signs it anew, as its operator could. The audit names each change.
func TestAudit(t *testing.T) {
	made := make(map[entry]leaf.Opening)
	_, proofs := publish(t, day(), made)
	of := func(kind leaf.Kind, name string) func(entry) bool {
		return func(e entry) bool { return e.kind == kind && e.name == name }
	}
	without := func(f func(entry) bool) []entry { return slices.DeleteFunc(day(), f) }
	swapped, backdated, changed := day(), day(), day()
	a, b := slices.IndexFunc(swapped, of(leaf.Intent, "post_30")), slices.IndexFunc(swapped, of(leaf.Intent, "post_40"))
	swapped[a], swapped[b] = swapped[b], swapped[a]
	i := slices.IndexFunc(backdated, of(leaf.Intent, "post_50"))
	backdated[i].minute = 20
	changed[slices.IndexFunc(changed, of(leaf.Intent, "post_60"))].name = "post_61"
	after := slices.IndexFunc(day(), of(leaf.Outcome, "post_70")) + 1
	twice := slices.Insert(day(), after, entry{leaf.Intent, "post_70", 71}, entry{leaf.Outcome, "post_70", 71})
	// An entry whose distance to the others is that of no time in nanoseconds, as 64 bits count them.
	overflow := entry{kind: leaf.Trust, name: "later"}
	made[overflow] = leaf.New(leaf.Trust, now.Add(math.MaxInt64).Add(math.MaxInt64), leaf.Document{})
	overflown := slices.Insert(slices.Clone(backdated), 1, overflow)
	for name, tt := range map[string]struct {
		log      []entry
		public   []translog.Problem // what the log itself shows
		sessions int                // without an end
	}{
		"untouched":        {day(), nil, 0},
		"a post taken":     {without(func(e entry) bool { return e.name == "post_30" }), nil, 0},
		"an outcome taken": {without(of(leaf.Outcome, "post_30")), []translog.Problem{translog.NoOutcome}, 0},
		"an intent taken":  {without(of(leaf.Intent, "post_30")), []translog.Problem{translog.NoIntent}, 0},
		"a post changed":   {changed, []translog.Problem{translog.NoIntent, translog.NoOutcome}, 0},
		"a post backdated": {backdated, []translog.Problem{translog.Backdated}, 0},
		"two swapped": {swapped,
			[]translog.Problem{translog.Backdated, translog.NoIntent, translog.NoOutcome}, 0},
		"a session's end taken": {without(of(leaf.SessionClosed, "ses_1")), nil, 1},
		"heartbeats taken": {without(func(e entry) bool { return e.kind == leaf.Heartbeat && e.minute/10 == 4 }),
			[]translog.Problem{translog.HeartbeatGap}, 0},
		"cut off":      {day()[:50], nil, 1},
		"a post twice": {twice, []translog.Problem{translog.Twice}, 0},
		"a time of another age": {overflown,
			[]translog.Problem{translog.Backdated, translog.HeartbeatGap}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			from, _ := publish(t, tt.log, made)
			alone, err := translog.Audit(t.Context(), from, translog.AuditOptions{Policy: policy(t, "quorum none")})
			check.Must(t, err)
			var found []translog.Problem
			for _, f := range alone.Findings {
				found = append(found, f.Problem)
			}
			slices.Sort(found)
			slices.Sort(tt.public)
			if found = slices.Compact(found); !slices.Equal(found, tt.public) || len(alone.Sessions) != tt.sessions ||
				alone.Size != int64(len(tt.log)) {
				t.Errorf("%d of %d entries, %d sessions, %+v", alone.Size, len(tt.log), len(alone.Sessions), alone.Findings)
			}
			r, err := translog.Audit(t.Context(), from,
				translog.AuditOptions{Policy: policy(t, "quorum none"), Proofs: proofs})
			check.Must(t, err)
			forked := slices.ContainsFunc(r.Findings, func(f translog.Finding) bool { return f.Problem == translog.Forked })
			missing := slices.ContainsFunc(r.Findings, func(f translog.Finding) bool { return f.Problem == translog.Missing })
			if touched := name != "untouched"; forked != touched || missing != touched {
				t.Errorf("against the proofs: %+v", r.Findings)
			}
		})
	}
	from, _ := publish(t, day(), made)
	_, err := translog.Audit(t.Context(), from, translog.AuditOptions{Policy: translog.Unwitnessed(key(t, "M"))})
	check.WantCode(t, err, "log_unwitnessed")
}
