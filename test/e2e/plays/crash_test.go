package plays

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/trigger"
)

const keysOfAPost = 9

type crash struct {
	process string
	points  []string     // of package failpoint; the last one ends the process
	at      string       // or what the upstream has seen, or given, when the process is killed
	sent    int          // posts that arrived upstream
	state   ledger.State // of the only record; empty for none
	code    string       // of the record
}

func (c crash) name() string { return c.process + " at " + strings.Join(c.points, ", ") + c.at }

var inLedger = []crash{
	{process: "serve", points: []string{"proof", "ledger begun"}},
	{process: "serve", points: []string{"proof", "ledger written"}},
	unknown(crash{points: []string{"intent", "ledger committed"}}),
	unknown(crash{points: []string{"relayed", "outcome", "ledger begun"}, sent: 1}),
	unknown(crash{points: []string{"relayed", "outcome", "ledger written"}, sent: 1}),
	{process: "serve", points: []string{"relayed", "outcome", "recorded"}, sent: 1, state: ledger.StateForwarded},
}

var elsewhere = []crash{
	{process: "serve", points: []string{"deployment"}},
	{process: "serve", points: []string{"content"}},
	{process: "serve", points: []string{"challenge"}},
	away("trigger", "asked"),
	away("trigger", "asked", "ledger begun"),
	away("trigger", "asked", "ledger written"),
	away("trigger", "asked", "ledger committed"),
	away("trigger", "spent"),
	away("trigger", "receipt signed"),
	{process: "serve", points: []string{"trigger"}},
	away("control", "allowed"),
	away("control", "granted"),
	{process: "serve", points: []string{"decision"}},
	{process: "serve", points: []string{"attest"}},
	{process: "serve", points: []string{"gate"}},
	{process: "serve", points: []string{"proof"}},
	unknown(crash{points: []string{"consume"}}),
	unknown(crash{points: []string{"connected"}}),
	unknown(crash{at: "the request's head", sent: 1}),
	unknown(crash{at: "the whole request", sent: 1}),
	unknown(crash{points: []string{"answered"}, sent: 1}),
	unknown(crash{at: "half its answer", sent: 1}),
	unknown(crash{points: []string{"relayed"}, sent: 1}),
	unknown(crash{points: []string{"left"}, sent: 1}),
}

func unknown(c crash) crash {
	c.process, c.state, c.code = "serve", ledger.StateIndeterminate, "indeterminate"
	return c
}

func away(process string, points ...string) crash {
	return crash{process: process, points: points, state: ledger.StateRefused, code: "process_unavailable"}
}

// TestCrash kills real processes at every step of a post's way. No post is sent twice, or without its record and its
// keys, and what cannot be known is recorded as indeterminate. The log holds each post once, whose intent is durable.
func TestCrash(t *testing.T) {
	t.Parallel()
	binary := kit.Program(t, "failpoint")
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		r := newCrashRig(t, binary, "", rarelyLogged)
		for _, c := range append(elsewhere, inLedger...) {
			t.Run(c.name(), func(t *testing.T) { r.play(t, c) })
		}
		r.publish(t)
	})
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		r := newCrashRig(t, binary, kit.Database(t), rarelyLogged)
		for _, c := range inLedger {
			t.Run(c.name(), func(t *testing.T) { r.play(t, c) })
		}
		r.publish(t)
	})
}

// publish plays the points of the log, ends the deployment and audits it.
func (r *crashRig) publish(t *testing.T) {
	t.Helper()
	for _, point := range logPoints {
		t.Run("serve at "+point, func(t *testing.T) { r.playLog(t, point) })
	}
	r.stop(t)
	for path, records := range r.audit(t) {
		if n := r.arrived(path); n > len(records) {
			t.Errorf("%s: %d posts arrived, and the records are %+v", path, n, records)
		}
	}
}

func (r *crashRig) play(t *testing.T, c crash) {
	agent := r.enter(t)
	keys, path := r.consumed(t), "/posts/"+agent.Event
	if c.at != "" {
		r.holdAt(t, c)
	} else {
		r.arm(t, c.process, c.points...)
	}
	tried := make(chan struct{})
	go func() { // the answer does not matter
		defer close(tried)
		agent.Call(http.MethodPost, path, `{"text":"`+strings.Repeat("x", 3<<20)+`"}`)
	}()
	r.crashed(t, c.process)
	<-tried
	r.holdWith(nil)
	r.start(t)

	r.compare(t, c, agent.Event, r.consumed(t)-keys)
	_, err := r.open(t, agent.Event) // it opened a session, which ended with the process
	if check.CodeOf(err) != "event_closed" {
		t.Errorf("the event opened a second session: %v", err)
	}
	r.wantArrived(t, path, c.sent)
}

func (r *crashRig) wantArrived(t *testing.T, path string, want int) {
	t.Helper()
	if got := r.arrived(path); got != want {
		t.Errorf("%s: %d posts arrived, want %d", path, got, want)
	}
}

func (r *crashRig) compare(t *testing.T, c crash, event string, keys int) {
	t.Helper()
	r.wantArrived(t, "/posts/"+event, c.sent)
	records, wantKeys := r.records(t, event), 0
	switch {
	case c.state == "" && len(records) != 0, c.state != "" && len(records) != 1:
		t.Errorf("%d records: %+v", len(records), records)
	case c.state != "" && (records[0].State != c.state || records[0].Code != c.code):
		t.Errorf("recorded as %s %s, want %s %s", records[0].State, records[0].Code, c.state, c.code)
	}
	if c.state.Outcome() {
		wantKeys = keysOfAPost
	}
	if keys != wantKeys {
		t.Errorf("%d keys were consumed, want %d", keys, wantKeys)
	}
}

func (r *crashRig) holdAt(t *testing.T, c crash) {
	r.holdWith(func(req *http.Request, w http.ResponseWriter) {
		switch c.at {
		case "the whole request":
			_, _ = io.Copy(io.Discard, req.Body)
		case "half its answer":
			_, _ = io.Copy(io.Discard, req.Body)
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half ")
			_ = http.NewResponseController(w).Flush()
		}
		r.kill(t, c.process, syscall.SIGKILL)
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			<-req.Context().Done()
		}
	})
}

// After a crash and a second delivery there is one event, which opens one session at most.
func TestCrashWhileDelivering(t *testing.T) {
	t.Parallel()
	r := newCrashRig(t, kit.Program(t, "failpoint"), "")
	for _, tt := range []struct {
		points []string
		again  string // the answer to a second delivery of the same event
		opens  bool   // a session
	}{
		{[]string{"delivered"}, "202 Accepted", true},
		{[]string{"delivered", "ledger begun"}, "202 Accepted", true},
		{[]string{"delivered", "ledger written"}, "202 Accepted", true},
		{[]string{"delivered", "ledger committed"}, "200 OK", true},
		{[]string{"kept"}, "200 OK", true},
		{[]string{"claimed"}, "200 OK", false},
	} {
		t.Run(strings.Join(tt.points, " "), func(t *testing.T) {
			before := len(r.events(t))
			r.arm(t, "trigger", tt.points...)
			event, err := r.DeliverRelease(t.Context())
			if err == nil { // the claim crashes it
				_, err = r.open(t, event)
			}
			if err == nil {
				t.Fatal("the trigger service did not crash")
			}
			r.crashed(t, "trigger")
			r.start(t)
			r.Deliveries--
			_, err = r.DeliverRelease(t.Context())
			if (err == nil) != (tt.again == "202 Accepted") || err != nil && !strings.Contains(err.Error(), tt.again) {
				t.Errorf("delivered again: %v, want %s", err, tt.again)
			}
			events := r.events(t)
			if len(events) != before+1 {
				t.Fatalf("%d events, want one more than %d", len(events), before)
			}
			if _, err := r.open(t, events[0].ID); (err == nil) != tt.opens {
				t.Errorf("a session: %v", err)
			}
			if _, err := r.open(t, events[0].ID); err == nil {
				t.Error("the event opened two sessions")
			}
		})
	}
}

func (r *crashRig) events(t *testing.T) (events []trigger.Event) {
	t.Helper()
	check.Must(t, admin.Get(t.Context(), "unix:"+r.Stack.Socket("trigger"), "/v1/events", &events))
	return events
}

func TestReleaseHasNoFailpoints(t *testing.T) {
	t.Parallel()
	for binary, want := range map[string]bool{kit.Program(t): false, kit.Program(t, "failpoint"): true} {
		raw := kit.Read(t, binary)
		for _, trace := range []string{"internal/failpoint", "MEDIATOR_FAILPOINT", "ledger written"} {
			if bytes.Contains(raw, []byte(trace)) != want {
				t.Errorf("that %s contains %q is not %t", binary, trace, want)
			}
		}
	}
}

const modelRule = `
egress:
  - name: model
    match: {url: "https://PLAIN/v1/chat/completions", methods: [POST]}
    observe: openai-chat
`

func callModel(a kit.Agent) kit.Outcome {
	return a.Call(http.MethodPost, "/v1/chat/completions",
		`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
}

type receiptCrash struct {
	posts    bool // the crash is on the way of the post, after a call that has its receipt
	points   []string
	again    []string // points at which the next start is killed too
	outcomes []string // the receipt of the interrupted call has one of these; empty if it has no receipt
}

var indeterminate = []string{interaction.OutcomeIndeterminate}

var receiptCrashes = []receiptCrash{
	{points: []string{"ledger begun"}},
	{points: []string{"ledger written"}},
	{points: []string{"ledger committed"}, outcomes: indeterminate},
	{points: []string{"call open"}, outcomes: indeterminate},
	{points: []string{"connected"}, outcomes: indeterminate},
	{points: []string{"answered"}, outcomes: indeterminate},
	{points: []string{"relayed"}, outcomes: indeterminate},
	{points: []string{"receipt signed"}, outcomes: indeterminate},
	{points: []string{"receipt signed", "ledger begun"}, outcomes: indeterminate},
	{points: []string{"receipt signed", "ledger written"}, outcomes: indeterminate},
	// The receipt is stored with the record of the call, or after it.
	{points: []string{"recorded"}, outcomes: []string{interaction.OutcomeIndeterminate, interaction.OutcomeNotMeasured}},
	{points: []string{"call open"}, again: []string{"receipt signed"}, outcomes: indeterminate},
	{points: []string{"call open"}, again: []string{"receipt signed", "receipt signed"}, outcomes: indeterminate},
	{posts: true, points: []string{"attest"}},
	{posts: true, points: []string{"proof", "ledger written"}},
	{posts: true, points: []string{"intent", "ledger committed"}, outcomes: indeterminate},
	{posts: true, points: []string{"consume"}, outcomes: indeterminate},
	{posts: true, points: []string{"answered"}, outcomes: indeterminate},
	{posts: true, points: []string{"relayed"}, outcomes: indeterminate},
	{posts: true, points: []string{"receipt signed"}, outcomes: indeterminate},
}

func (c receiptCrash) name() string {
	kind := map[bool]string{false: "call at ", true: "post at "}
	return kind[c.posts] + strings.Join(slices.Concat(c.points, c.again), ", ")
}

// TestReceiptsCrash kills the sidecar at every step that makes receipts. Then the session's chain is complete and
// closed.
func TestReceiptsCrash(t *testing.T) {
	t.Parallel()
	binary := kit.Program(t, "failpoint")
	for store, dsn := range map[string]func() string{
		"file":     func() string { return "" },
		"database": func() string { return kit.Database(t) },
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			r := newCrashRig(t, binary, dsn(), modelRule, rarelyLogged)
			for i, c := range receiptCrashes {
				if store == "file" || kit.Long() || i%4 == 0 { // the long form plays all of them on both
					t.Run(c.name(), func(t *testing.T) { r.playReceipts(t, c) })
				}
			}
			r.stop(t)
			r.audit(t)
		})
	}
}

func (r *crashRig) playReceipts(t *testing.T, c receiptCrash) {
	agent := r.enter(t)
	session := agent.Session.Session
	if c.posts {
		callModel(agent)
		r.waitForReceipts(t, session, 1)
	}
	r.arm(t, "serve", c.points...)
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		if c.posts {
			post(agent, "/posts/"+agent.Event)
		} else {
			callModel(agent)
		}
	}()
	r.crashed(t, "serve")
	<-tried
	if len(c.again) > 0 {
		r.arm(t, "serve", c.again...)
		r.launch(t)
		r.crashedSoon(t)
	}
	r.start(t)

	want := 0
	if len(c.outcomes) > 0 {
		want = 2 // the call, and the end
	}
	if c.posts {
		want = max(want+1, 2)
	}
	chain := r.waitForReceipts(t, session, want)
	if len(chain) == 0 {
		return
	}
	end := chain[len(chain)-1]
	if end.Closing == nil || end.Closing.Reason != interaction.ClosedLost {
		t.Errorf("the chain does not end with the session's: %+v", end)
	}
	if len(c.outcomes) == 0 {
		return
	}
	if last := chain[len(chain)-2]; !slices.Contains(c.outcomes, last.Outcome) || (last.Post != nil) != c.posts {
		t.Errorf("the receipt of the call says %s, want %v: %+v", last.Outcome, c.outcomes, last)
	}
}

func (r *crashRig) waitForReceipts(t *testing.T, session string, want int) (chain []interaction.Receipt) {
	t.Helper()
	var stored []ledger.Receipt
	if kit.Eventually(func() bool { stored = r.stored(t, session); return len(stored) >= want }); len(stored) != want {
		t.Fatalf("session %s has %d receipts, want %d", session, len(stored), want)
	}
	return r.verified(t, session, stored)
}

func (r *crashRig) stored(t *testing.T, session string) []ledger.Receipt {
	t.Helper()
	var from interface {
		Chain(ctx context.Context, session string, from int64, limit int) ([]ledger.Receipt, error)
		io.Closer
	}
	var err error
	if r.dsn == "" {
		from, err = sqlite.OpenCopy(t.Context(), r.In("state/ledger.db"))
	} else {
		from, err = postgres.Open(t.Context(), r.dsn, postgres.Options{Now: time.Now, Instance: "the test"})
	}
	check.Must(t, err)
	stored, err := from.Chain(t.Context(), session, 1, ledger.MaxChain)
	check.Must(t, errors.Join(err, from.Close()))
	return stored
}

func (r *crashRig) verified(t *testing.T, session string, stored []ledger.Receipt) (chain []interaction.Receipt) {
	t.Helper()
	open, before := r.opener(t), ""
	own := r.Agent(t)
	for i, one := range stored {
		claims, err := evidence.UnverifiedClaims(interaction.Kind, one.Token)
		check.Must(t, err)
		if claims.Owner == own.Owner { // the keys and roots of receipts from before the last start are gone
			_, err := open(one.Token, claims)
			check.Must(t, err)
		}
		link := interaction.ChainLink{PreviousReceiptHash: before, SessionID: session, SequenceNumber: int64(i + 1)}
		if claims.Chain != link {
			t.Errorf("receipt %d has the place %+v, want %+v", i+1, claims.Chain, link)
		}
		chain, before = append(chain, claims), evidence.HashToken(one.Token)
	}
	return chain
}

func (r *crashRig) opener(t *testing.T) interaction.Opener {
	t.Helper()
	c, err := config.Load[config.Sidecar](r.In(devstack.SidecarFile))
	check.Must(t, err)
	roots, err := deployed.ReadRoots(c.Trust.Registry, c.Trust.Auditor)
	check.Must(t, err)
	bundle, _, err := deployed.ReadBundle(c.Trust.Bundle)
	check.Must(t, err)
	_, strict, err := deployed.ReadAuditedManifest(c.Manifest)
	check.Must(t, err)
	past, err := evidence.NewPastTrust(roots, bundle, evidence.History{}, strict.Signers)
	check.Must(t, err)
	return interaction.Past(past, strict.Interaction, time.Now())
}
