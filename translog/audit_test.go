package translog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

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
func publish(t *testing.T, all []entry, made map[entry]leaf.Opening) (from torchwood.TileReader,
	proofs []translog.Verified) {
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
		v, err := policy(t, "quorum none").Verify(p)
		check.Must(t, err)
		proofs = append(proofs, v)
	}
	server := httptest.NewServer(translog.Handler(store))
	t.Cleanup(server.Close)
	return translog.Fetch(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, server.URL), proofs
}

// known is what the proofs have shown.
func known(t *testing.T, proofs []translog.Verified) *translog.Known {
	t.Helper()
	var k translog.Known
	for _, v := range proofs {
		check.Must(t, k.Add(v))
	}
	return &k
}

// theirs reports whether x/mod alone sees that the log at a reader lacks one of the proven entries.
func theirs(t *testing.T, from torchwood.TileReader, proofs []translog.Verified) bool {
	t.Helper()
	signed, err := from.ReadEndpoint(t.Context(), "checkpoint")
	check.Must(t, err)
	verifier, err := note.NewVerifier(key(t, "L").String())
	check.Must(t, err)
	n, err := note.Open(signed, note.VerifierList(verifier))
	check.Must(t, err)
	c, err := torchwood.ParseCheckpoint(n.Text)
	check.Must(t, err)
	read := torchwood.TileHashReaderWithContext(t.Context(), c.Tree, from)
	return slices.ContainsFunc(proofs, func(v translog.Verified) bool {
		p, err := tlog.ProveRecord(c.N, v.Index, read)
		return err != nil || tlog.CheckRecord(p, c.N, c.Hash, v.Index, tlog.RecordHash(v.Opening.Entry.Encode())) != nil
	})
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
			alone, err := translog.Audit(t.Context(), from, policy(t, "quorum none"), nil, nil)
			check.Must(t, err)
			var found []translog.Problem
			for _, f := range alone.Findings {
				found = append(found, f.Problem)
			}
			slices.Sort(found)
			slices.Sort(tt.public)
			if found = slices.Compact(found); !slices.Equal(found, tt.public) || len(alone.Sessions) != tt.sessions ||
				alone.Size != int64(len(tt.log)) {
				t.Errorf("%d of %d entries, %d sessions, %+v", alone.Size, len(tt.log), len(alone.Sessions),
					alone.Findings)
			}
			r, err := translog.Audit(t.Context(), from,
				policy(t, "quorum none"), known(t, proofs), nil)
			check.Must(t, err)
			forked := slices.ContainsFunc(r.Findings,
				func(f translog.Finding) bool { return f.Problem == translog.Forked })
			missing := slices.ContainsFunc(r.Findings,
				func(f translog.Finding) bool { return f.Problem == translog.Missing })
			if touched := name != "untouched"; forked != touched || missing != touched ||
				theirs(t, from, proofs) != touched {
				t.Errorf("against the proofs: %+v", r.Findings)
			}
		})
	}
	from, _ := publish(t, day(), made)
	r, err := translog.Audit(t.Context(), from, policy(t, "quorum none"), nil, nil)
	check.Must(t, err)
	last := now.Add(119 * time.Minute)
	if r.CheckAge(last.Add(time.Hour), time.Hour); len(r.Findings) > 0 {
		t.Errorf("an hour old: %+v", r.Findings)
	}
	if r.CheckAge(last.Add(2*time.Hour), time.Hour); r.Found[translog.Stale] != 1 ||
		!strings.Contains(r.Findings[0].Detail, "2h0m0s old") {
		t.Errorf("two hours old: %+v", r.Findings)
	}
	_, err = translog.Audit(t.Context(), from, translog.Unwitnessed(key(t, "M")), nil, nil)
	check.WantCode(t, err, "log_unwitnessed")
}

type away struct{ torchwood.TileReader }

func (away) ReadTiles(context.Context, []tlog.Tile) ([][]byte, error) {
	return nil, io.ErrUnexpectedEOF
}

// TestForked shows two auditors two logs with one key. What one of them keeps names the fork to the other.
func TestForked(t *testing.T) {
	made := make(map[entry]leaf.Opening)
	one, _ := publish(t, day(), made)
	two, proofs := publish(t, slices.DeleteFunc(day(), func(e entry) bool { return e.name == "post_30" }), made)
	seen, err := one.ReadEndpoint(t.Context(), "checkpoint")
	check.Must(t, err)
	p := policy(t, "quorum none")
	var k translog.Known
	check.Must(t, k.AddCheckpoint("the other auditor's", seen, p))
	same, err := translog.Audit(t.Context(), one, p, &k, nil)
	check.Must(t, err)
	if len(same.Findings) > 0 {
		t.Errorf("one log: %+v", same.Findings)
	}
	// A log that cannot be read is not thereby another one.
	if _, err = translog.Audit(t.Context(), away{one}, p, &k, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a log that is away: %v", err)
	}
	other, err := translog.Audit(t.Context(), two, p, &k, nil)
	check.Must(t, err)
	if other.Found[translog.Forked] != 1 || !strings.Contains(other.Findings[0].Detail, "the other auditor's") {
		t.Errorf("two logs: %+v", other.Findings)
	}
	// Proofs of both contradict each other without any log.
	_, theirs := publish(t, day(), made)
	k = *known(t, theirs)
	code := ""
	for _, v := range proofs {
		if err := k.Add(v); err != nil {
			code = check.CodeOf(err)
		}
	}
	if code != "log_contradicted" {
		t.Errorf("proofs of two logs: %q", code)
	}
	check.WantCode(t, k.AddCheckpoint("a stranger's", seen, translog.Unwitnessed(key(t, "M"))), "log_unwitnessed")
}

// TestFetch: what a log answers is bounded, and a busy one is asked again.
func TestFetch(t *testing.T) {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch tries++; {
		case r.URL.Path == "/log/long":
			_, _ = w.Write(make([]byte, 1<<20))
		case r.URL.Path == "/log/busy" && tries == 1:
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/log/none":
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	from := translog.Fetch(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, server.URL+"/log")
	_, err := from.ReadEndpoint(t.Context(), "busy")
	check.Must(t, err)
	_, err = from.ReadEndpoint(t.Context(), "long")
	check.WantCode(t, err, "evidence_malformed")
	if _, err = from.ReadEndpoint(t.Context(), "none"); err == nil || tries != 4 {
		t.Errorf("%d requests, %v", tries, err)
	}
}
