package plays

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// rarelyLogged has the log write to the ledger only at the start, when a session opens, and each minute, so that a play
// can choose the next write.
const rarelyLogged = `
transparencyLog: {origin: log.example/plays, key: transparency-log-key, interval: 1m}
`

// logPoints are those at which a process numbers entries, signs a checkpoint and publishes it.
var logPoints = []string{"log begun", "log grown", "log signed", "log published", "log cosigned"}

// playLog kills the sidecar after a post, and its next start while that publishes what the post has left in the log.
func (r *crashRig) playLog(t *testing.T, point string) {
	agent := r.enter(t)
	path := "/posts/" + agent.Event
	if o := post(agent, path); o.Code != "" {
		t.Fatalf("a post: %+v", o)
	}
	kit.Until(t, "the outcome", func() bool {
		records := r.records(t, agent.Event)
		return len(records) == 1 && records[0].State == ledger.StateForwarded
	})
	r.kill(t, "serve", syscall.SIGKILL)
	r.crashed(t, "serve")
	r.arm(t, "serve", point)
	r.launch(t)
	r.crashedSoon(t)
	r.start(t)
	r.wantArrived(t, path, 1)
	if records := r.records(t, agent.Event); len(records) != 1 || records[0].State != ledger.StateForwarded {
		t.Errorf("the records are %+v", records)
	}
}

// loggedLedger is the ledger of a deployment that has ended.
type loggedLedger interface {
	ledger.LogReader
	Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error]
	io.Closer
}

func (r *crashRig) ledger(t *testing.T) (l loggedLedger) {
	t.Helper()
	var err error
	if r.dsn == "" {
		l, err = sqlite.OpenCopy(t.Context(), r.In("state/ledger.db"))
	} else {
		l, err = postgres.OpenReader(t.Context(), r.dsn)
	}
	check.Must(t, err)
	return l
}

// audit replays the log of a deployment that has ended, as an auditor with its records does: each post that went out,
// or may have, has an intent and an outcome there, each once, and no other post has. It returns the records of posts by
// path.
func (r *crashRig) audit(t *testing.T) map[string][]ledger.Record {
	t.Helper()
	vkey := strings.TrimSpace(kit.Run(t, "log", "key", "--config", r.In(devstack.SidecarFile)))
	p, err := translog.ParsePolicy([]byte("log " + vkey + "\nquorum none\n"))
	check.Must(t, err)
	store := r.ledger(t)
	defer store.Close()
	j, proofs := archive.NewLogJudge(p), archive.ProofsIn(store)
	byPath, posts := make(map[string][]ledger.Record), int64(0)
	for record, err := range store.Records(t.Context(), ledger.Query{Flow: "post"}) {
		check.Must(t, err)
		proof, err := proofs(t.Context(), record.ID)
		check.Must(t, err)
		j.Add(record, proof)
		byPath[record.Path] = append(byPath[record.Path], record)
		if record.State != ledger.StateRefused {
			posts++
		}
	}
	server := httptest.NewServer(translog.Handler(store))
	defer server.Close()
	report, err := j.Against(t.Context(), translog.Fetch(server.Client(), server.URL), time.Time{}, time.Time{})
	check.Must(t, err)
	if len(report.Findings) > 0 || report.Entries[leaf.Intent] != posts || report.Entries[leaf.Outcome] != posts ||
		int64(j.Untampered.Held) != posts || j.Untampered.RefusedCount+j.Untampered.NotKnownCount > 0 ||
		posts > 0 && (j.Complete.Result != archive.CompleteNoneMissing || j.Complete.Posts != posts) {
		t.Errorf("of %d posts the log shows %+v, %+v, %+v", posts, report, j.Untampered, j.Complete)
	}
	t.Logf("%d posts, %v", posts, report.Entries)
	return byPath
}

// often has replicas number and sign all the time.
const often = `
transparencyLog: {origin: log.example/plays, key: transparency-log-key, interval: 1s}
`

// TestReplicasShareALog kills one of two sidecars with one ledger and one log, again and again, while the other posts.
func TestReplicasShareALog(t *testing.T) {
	t.Parallel()
	c := newReplicas(t, kit.Program(t, "failpoint"), kit.Database(t), 2, often)
	survivor, victim := c.all[0], c.all[1]
	points := []string{"log grown", "proof, ledger committed", "log published", "relayed, outcome, ledger written"}
	if kit.Long() {
		points = logPoints
		for _, of := range append(elsewhere, inLedger...) {
			if of.process == "serve" && of.at == "" {
				points = append(points, strings.Join(of.points, ", "))
			}
		}
	}
	for i, point := range points {
		path := fmt.Sprintf("/posts/victim-%d", i)
		agent := c.agent(t, victim)
		agent.Header = c.solvedBy(t, victim, path)
		kit.Write(t, victim.failpoint(), "serve: "+strings.ReplaceAll(point, ", ", "\nserve: "))
		var dead atomic.Bool
		var all sync.WaitGroup
		all.Go(func() { post(agent, path) }) // its answer does not matter
		all.Go(func() {
			for n := 0; n == 0 || !dead.Load(); n++ {
				if o := c.posts(t, survivor, fmt.Sprintf("/posts/survivor-%d-%d", i, n)); o.Code != "" {
					t.Errorf("beside %s: %+v", point, o)
					return
				}
			}
		})
		kit.Until(t, "the victim's end at "+point, victim.ended)
		dead.Store(true)
		all.Wait()
		c.restart(t, victim)
	}
	for _, r := range []*replica{victim, survivor} { // the survivor has the other processes
		r.Stop()
	}
	byPath := c.audit(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, n := range c.sent {
		if n != 1 || len(byPath[path]) == 0 {
			t.Errorf("%s: %d posts arrived, and the records are %+v", path, n, byPath[path])
		}
	}
}
