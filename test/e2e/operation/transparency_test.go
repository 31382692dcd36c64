package operation

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

func TestTransparencyLog(t *testing.T) {
	t.Parallel()
	r := kit.NewLoggedRig(t, "")
	ended, open := r.OpenAgent(t), r.OpenAgent(t)
	ended.MustPost(t)
	open.MustPost(t)
	check.Must(t, admin.Call(t.Context(), r.Stack.Admin(), http.MethodDelete, "/v1/sessions/"+ended.Session.Session, nil,
		nil))
	_, err := r.Stack.Reload(t.Context())
	check.Must(t, err)
	r.Audited(t, map[leaf.Kind]int64{leaf.SessionOpened: 2, leaf.Intent: 2, leaf.Outcome: 2, leaf.SessionClosed: 1,
		leaf.Trust: 2}) // at the start and at the reload
	if said := kit.Mediator(t, "doctor", "--admin", r.Stack.Admin()).Out; !strings.Contains(said,
		"log log.example/e2e: ") || !strings.Contains(said, "witnessed by w until 2") {
		t.Errorf("doctor says:\n%s", said)
	}
	for _, metric := range []string{"mediator_log_entries ", "mediator_log_witnessed_entries ",
		"mediator_log_witnessed_seconds "} {
		if said := kit.Metrics(t, r.Stack.Socket("serve")); !strings.Contains(said, "\n"+metric) {
			t.Errorf("there is no metric %s", metric)
		}
	}

	records := r.Records(t, "flow=post")
	r.Stack.Stop()
	store, err := sqlite.Open(t.Context(), r.In("state/ledger.db"), sqlite.Options{Now: time.Now, Logged: func() {}})
	check.Must(t, err)
	defer store.Close()
	if len(records) != 2 {
		t.Fatalf("got %+v", records)
	}
	for _, record := range records {
		for _, kind := range []leaf.Kind{leaf.Intent, leaf.Outcome} {
			v := proven(t, r, store, leaf.ID(kind, record.ID))
			check.Must(t, v.Opening.CheckRecord(whole(t, store, record.ID)))
		}
	}
	for _, id := range []string{leaf.ID(leaf.SessionOpened, open.Session.Session),
		leaf.ID(leaf.SessionClosed, ended.Session.Session)} {
		proven(t, r, store, id)
	}
	_, err = store.Leaf(t.Context(), leaf.ID(leaf.SessionClosed, open.Session.Session)) // ended with the process
	check.Must(t, err)
}

// TestLoggedExport verifies an export with its log as an auditor does, and one from which a post was taken.
func TestLoggedExport(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		testLoggedExport(t, kit.NewLoggedRig(t, ""))
	})
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		dsn := filepath.Join(t.TempDir(), "dsn")
		kit.Write(t, dsn, kit.Database(t))
		r := kit.NewLoggedRig(t, "", func(file string) string {
			if strings.Contains(file, "\nactions:") {
				file += fmt.Sprintf("ledger: {postgres: {dsnFile: %s}}\n", dsn)
			}
			return file
		})
		log := testLoggedExport(t, r)
		kit.Mediator(t, append([]string{"verify", "--ledger", dsn}, log...)...).Done("Authentic:   3 verified, ",
			"Untampered:  3 of 3 records", "Witnessed:   w saw 3 of 3 records by 2", "Complete:    all 3 posts in the log")
	})
}

// testLoggedExport returns the flags with which it verified.
func testLoggedExport(t *testing.T, r *kit.LoggedRig) (flags []string) {
	t.Helper()
	agent := r.OpenAgent(t)
	began := time.Now()
	agent.MustPost(t)
	took := time.Since(began)
	kit.Until(t, "a time at which no post can have been sent before the first", func() bool {
		return time.Since(began) > 10*took // the judge allows for the longest time that a post took to be logged
	})
	agent.MustPost(t)
	agent.MustPost(t)
	r.Audited(t, map[leaf.Kind]int64{leaf.Intent: 3, leaf.Outcome: 3})
	dir := t.TempDir()
	all, taken := filepath.Join(dir, "all.jsonl"), filepath.Join(dir, "taken.jsonl")
	kit.Run(t, kit.With([]string{"posts", "export", "--out", all, "--flow", "post", "--admin", r.Stack.Admin()},
		r.Trust()...)...)
	log := append(r.Trust(), "--log-policy", r.In("log-policy.txt"), "--log", r.URL)
	kit.Mediator(t, append([]string{"verify", all}, log...)...).Done("Authentic:   3 verified, ",
		"Untampered:  3 of 3 records of posts that went out are the ones in the log log.example/e2e\n",
		"Witnessed:   w saw 3 of 3 records by 2", "Complete:    all 3 posts in the log from ", " are here, as seen by w at 2")
	kit.Mediator(t, append([]string{"verify", r.SaveRecord(t, r.NewestRecord(t, "flow=post").ID)}, log...)...).Done(
		"Authentic:   verified\n", "Untampered:  1 of 1 records", "Witnessed:   w saw 1 of 1 records by 2",
		"Complete:    all 1 posts in the log from ")
	var left []string
	posts := 0
	for line := range strings.Lines(string(kit.Read(t, all))) {
		if strings.HasPrefix(line, `{"record":`) {
			posts++
		}
		if posts != 2 || strings.HasPrefix(line, `{"receipt":`) { // the receipts of the session stay
			left = append(left, strings.Replace(line, `{"records":3}`, `{"records":2}`, 1))
		}
	}
	kit.Write(t, taken, strings.Join(left, ""))
	roots := r.Trust()[:6] // without the manifest, which an export brings
	kit.SameInTypeScript(t, []string{all, taken}, append(roots, "--log-policy", r.In("log-policy.txt"))...)
	missing := []string{"Complete:    no: 1 posts in the log are missing here\n", "missing: entry "}
	kit.Mediator(t, append([]string{"verify", taken}, log...)...).Refused(missing...)
	audit := []string{"log", "audit", r.URL, "--policy", r.In("log-policy.txt"), "--records"}
	kit.Mediator(t, append(audit, taken)...).Refused(missing...)
	kit.Mediator(t, append(audit, all)...).Done("Nothing in the log contradicts it.")
	kit.Mediator(t, append(audit, all, "--max-age", "1ns")...).Refused("STALE at entry ")
	return log
}

// whole returns a record as the ledger has it.
func whole(t *testing.T, store ledger.Store, id string) ledger.Record {
	t.Helper()
	record, err := store.Get(t.Context(), id)
	check.Must(t, err)
	return record
}

// proven returns what the proof of an entry shows, which the witness has seen.
func proven(t *testing.T, r *kit.LoggedRig, store ledger.LogReader, id string) translog.Verified {
	t.Helper()
	text, err := translog.Prove(t.Context(), store, id)
	check.Must(t, err)
	v, err := r.Policy.Verify(text)
	check.Must(t, err)
	if len(v.Witnesses) != 1 || v.Origin != "log.example/e2e" {
		t.Errorf("%s: %+v", id, v)
	}
	return v
}

// TestRequireWitness: a post that needs a witness goes out only once that has cosigned its intent.
func TestRequireWitness(t *testing.T) {
	t.Parallel()
	r := kit.NewLoggedRig(t, ", requireWitness: true")
	agent := r.OpenAgent(t)
	agent.MustPost(t)
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/readyz", nil))
	posts := int64(1)
	for name, answer := range map[string]logtest.Answer{
		"away":  logtest.Says(http.StatusBadGateway, ""),
		"slow":  func(_ http.ResponseWriter, req *http.Request) bool { <-req.Context().Done(); return true },
		"wrong": logtest.Says(http.StatusOK, "\u2014 witness.example/w AAAA\n"),
	} {
		r.Witness.Answer(answer)
		if got := agent.Post(); got.Status != http.StatusServiceUnavailable || got.Code != "log_unwitnessed" ||
			r.Posts.Load() != posts {
			t.Errorf("%s: got %+v, and %d posts arrived", name, got, r.Posts.Load())
		}
		r.Witness.Answer(nil) // back
		agent.MustPost(t)
		posts++
	}
	if failed := r.RecordsOf(t, "comment", "log_unwitnessed"); len(failed) != 3 || r.Posts.Load() != posts {
		t.Errorf("%d posts arrived, and the records are %+v", r.Posts.Load(), failed)
	} else {
		for _, record := range failed {
			if record.State != ledger.StateFailed || record.Status != 0 {
				t.Errorf("got %+v", record)
			}
		}
	}
	r.Audited(t, map[leaf.Kind]int64{leaf.Intent: 7, leaf.Outcome: 7})
}
