package commands

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func serveRecords(t *testing.T, store ledger.Store) string {
	t.Helper()
	p := &daemon.Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry()}
	p.Reloader = daemon.NewReloader(p.Log, p.Metrics)
	a := &admin.Server{Process: p, Sessions: session.NewSet(time.Now), Ledger: store}
	if q, ok := store.(*ledger.Queue); ok {
		a.Ended = &q.Ended
	}
	return kit.ServeUnix(t, "admin.sock", a.Handler())
}

var recordsFrom = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fillLedger makes a ledger of n records, one each minute. The key request-proof-key:v1 has signed the first half of
// them, and v2 the others.
func fillLedger(t *testing.T, n int) (l *sqlite.Ledger, path string) {
	t.Helper()
	path = t.TempDir() + "/ledger.db"
	l, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: time.Now})
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	records := make([]ledger.Record, n)
	for i := range records {
		head := fmt.Sprintf(`{"alg":"EdDSA","kid":"request-proof-key:v%d","typ":"request-proof+jwt"}`, 1+2*i/n)
		records[i] = ledger.Record{
			ID: fmt.Sprintf("post_%05d", i), Flow: "post", State: ledger.StateForwarded, Session: fmt.Sprint("ses_", i%3),
			Method: "POST", Host: "api.example.com",
			Started: recordsFrom.Add(time.Duration(i) * time.Minute),
			Artifacts: []ledger.Artifact{
				{Name: "requestProof", Token: base64.RawURLEncoding.EncodeToString([]byte(head)) + ".e30.AA"}},
		}
		if i%100 == 0 {
			records[i].Flow, records[i].State = "egress", ledger.StateRefused
		}
	}
	check.Must(t, l.Write(t.Context(), nil, records))
	return l, path
}

func idsOf(t *testing.T, out string) (ids []string) {
	t.Helper()
	if strings.HasPrefix(out, "[") {
		var posts []ledger.Record
		if err := json.Unmarshal([]byte(out), &posts); err != nil {
			t.Fatalf("no JSON: %v", err)
		}
		for _, p := range posts {
			ids = append(ids, p.ID)
		}
		return ids
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[1] != "ID" {
			ids = append(ids, f[1])
		}
	}
	return ids
}

// A list says what it leaves out, and how to get it.
func TestPostsListIsWhole(t *testing.T) {
	t.Parallel()
	const n = 1200
	l, path := fillLedger(t, n)
	at := serveRecords(t, l)
	sources := [][]string{{"--admin", at}, {"--ledger", path}}
	list := func(args string, from []string) kit.Ended {
		t.Helper()
		return kit.Mediator(t, slices.Concat([]string{"posts", "list"}, strings.Fields(args), from)...)
	}
	newest := func(from, to int) (ids []string) { // numbers from one down to another
		for i := from; i >= to; i-- {
			ids = append(ids, fmt.Sprintf("post_%05d", i))
		}
		return ids
	}
	for _, tt := range []struct {
		args   string
		want   []string
		notice string
	}{
		{"", newest(n-1, n-50), "these are 50 records, and there are more: go on with --cursor post_01150,"},
		{"--cursor post_01150", newest(1149, 1100), "--cursor post_01100"},
		{"--cursor post_00050", newest(49, 0), ""},
		{"--cursor post_00000", nil, ""},
		{"--limit 1200", newest(n-1, 0), ""},
		{"--limit 1199", newest(n-1, 1), "these are 1199 records"},
		{"--limit 5000", newest(n-1, 0), ""},
		{"--json", newest(n-1, 0), ""},
		{"--json --limit 1200", newest(n-1, 0), ""},
		{"--json --limit 7", newest(n-1, n-7), "these are 7 records"},
		{"--json --since 2026-03-01T00:10:00Z --until 2026-03-01T00:20:00Z", newest(19, 10), ""},
		{"--json --since 2026-03-01T01:10:00+01:00 --until 2026-03-01T01:20:00+01:00", newest(19, 10), ""},
		{"--json --until 2026-03-02 --since 2026-03-01T19:55:00Z", newest(n-1, 1195), ""},
		{"--json --until 2026-03-01", nil, ""},
		{"--json --since 1h", nil, ""},
		{"--json --until 1h --cursor post_00010", newest(9, 0), ""},
		{"--json --key request-proof-key:v1", newest(599, 0), ""},
		{"--json --key request-proof-key:v2", newest(n-1, 600), ""},
		{"--json --key request-proof-key", newest(n-1, 0), ""},
		{"--key request-proof-key:v1", newest(599, 550), "go on with --cursor post_00550"},
		{"--key request-proof-key:v1 --cursor post_00550 --limit 1", newest(549, 549), "--cursor post_00549"},
		{"--json --key request-proof-key:v1 --limit 600", newest(599, 0), ""},
		{"--json --key request-proof-key:v3", nil, ""},
		{"--json --state refused --since 2026-03-01T15:00:00Z", []string{"post_01100", "post_01000", "post_00900"}, ""},
		{"--json --flow egress --until 2026-03-01T05:00:00Z", []string{"post_00200", "post_00100", "post_00000"}, ""},
	} {
		for _, from := range sources {
			e := list(tt.args, from).Done(tt.notice)
			if got := idsOf(t, e.Out); !slices.Equal(got, tt.want) || (e.Said == "") != (tt.notice == "") {
				t.Errorf("%s %s: %d records, want %d: %q", tt.args, from[0], len(got), len(tt.want), e.Said)
			}
		}
	}
	for _, from := range sources {
		e := list("--json --cursor post_absent", from).Refused("the cursor \"post_absent\" is not the id of a kept record")
		if e.Out != "" {
			t.Errorf("%s: %q", from[0], e.Out)
		}
	}
}

type brokenStore struct {
	ledger.Store
	after int
}

func (b brokenStore) Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		n := 0
		for r, err := range b.Store.Records(ctx, q) {
			if n++; n > b.after {
				yield(ledger.Record{}, ledger.Unavailable("read", errors.New("it went away")))
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Half a list never looks complete.
func TestPostsListBreaksOff(t *testing.T) {
	t.Parallel()
	l, _ := fillLedger(t, 1000)
	for after, want := range map[int]string{0: "ledger_unavailable", 1: "broke off", 500: "broke off", 999: "broke off"} {
		at := serveRecords(t, brokenStore{l, after})
		if err := rawList(t, at); after > 0 && err == nil {
			t.Errorf("after %d: the answer seems to be whole to who reads no JSON", after)
		}
		for _, args := range [][]string{{"--json"}, {"--limit", "1000"}} {
			e := kit.Mediator(t, slices.Concat([]string{"posts", "list", "--admin", at}, args)...).Refused(want)
			if json.Valid([]byte(e.Out)) {
				t.Errorf("%v after %d: half a list is JSON: %.100s", args, after, e.Out)
			}
		}
	}
}

func rawList(t *testing.T, at string) error {
	t.Helper()
	e, id, err := admin.ParseEndpoint(at)
	check.Must(t, err)
	client, base := endpoint.Client(e, id)
	defer client.CloseIdleConnections()
	resp, err := client.Get(base + "/v1/posts")
	check.Must(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

type endlessStore struct {
	ledger.Store
	read atomic.Int64
	over chan struct{}
}

func (e *endlessStore) Records(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Record, error] {
	if q.Limit == 1 {
		return func(func(ledger.Record, error) bool) {}
	}
	return func(yield func(ledger.Record, error) bool) {
		defer close(e.over)
		for ctx.Err() == nil &&
			yield(ledger.Record{ID: fmt.Sprint("post_", e.read.Add(1)), State: ledger.StateForwarded,
				Reason: strings.Repeat("x", 1<<10)}, nil) {
		}
	}
}

func TestPostsListIsStreamed(t *testing.T) {
	t.Parallel()
	store := &endlessStore{over: make(chan struct{})}
	at := serveRecords(t, store)
	const enough = 2000 // so many are made that the sidecar waits, unless it keeps them
	read := 0
	for r, err := range admin.Records(t.Context(), at, ledger.Query{}) {
		check.Must(t, err)
		if read++; r.ID != fmt.Sprint("post_", read) {
			t.Fatalf("got %s, want post_%d", r.ID, read)
		}
		if read == enough {
			break
		}
	}
	<-store.over
	if ahead := store.read.Load() - enough; ahead > 20_000 { // what lies in buffers, of 1 KiB each
		t.Errorf("%d records were made that nobody has read", ahead)
	}
}

// A followed list begins with the newest records, and then shows each call once, when it has ended.
func TestFollow(t *testing.T) {
	t.Parallel()
	store, _ := fillLedger(t, 30)
	l := ledger.NewQueue(store, func(r ledger.Record, err error) { t.Errorf("%s is lost: %v", r.ID, err) })
	t.Cleanup(func() { l.Close() })
	at := serveRecords(t, l)
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- program.Run(ctx, []string{"posts", "list", "--follow", "--json", "--limit", "3", "--admin", at},
			strings.NewReader(""), write, io.Discard)
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, 1<<20)
	want := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			var r ledger.Record
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &r) != nil || r.ID != id {
				t.Fatalf("%q, want %s", lines.Text(), id)
			}
		}
	}
	want("post_00027", "post_00028", "post_00029")
	r := ledger.Record{ID: "post_slow", Flow: "post", Method: "POST", Host: "api.example.com:443", Path: "/posts",
		Started: time.Now()}
	check.Must(t, l.Begin(t.Context(), r))
	for i := range 3 { // after the slow one, and ended before it
		quick := ledger.Record{ID: fmt.Sprint("post_quick", i), Flow: "egress", State: ledger.StateForwarded,
			Started: time.Now().Add(time.Duration(i) * time.Millisecond)}
		check.Must(t, l.Add(t.Context(), quick))
		want(quick.ID)
	}
	r.State, r.Finished = ledger.StateForwarded, time.Now()
	check.Must(t, l.Finish(t.Context(), r))
	want("post_slow")
	stop()
	if lines.Scan() {
		t.Errorf("there is more: %s", lines.Text())
	}
	if status := <-ended; status != program.Done {
		t.Errorf("interrupted, it ends with status %d", status)
	}
}
