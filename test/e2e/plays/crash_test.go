package plays

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/trigger"
)

const keysOfAPost = 9

// crash is one play: a process is killed at a point of a post's way, and exactly this is left.
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
	unknown(crash{points: []string{"proof", "ledger committed"}}),
	unknown(crash{points: []string{"relayed", "ledger begun"}, sent: 1}),
	unknown(crash{points: []string{"relayed", "ledger written"}, sent: 1}),
	{process: "serve", points: []string{"relayed", "ledger committed"}, sent: 1, state: ledger.StateForwarded},
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
	{process: "serve", points: []string{"recorded"}, sent: 1, state: ledger.StateForwarded},
}

func unknown(c crash) crash {
	c.process, c.state, c.code = "serve", ledger.StateIndeterminate, "indeterminate"
	return c
}

func away(process string, points ...string) crash {
	return crash{process: process, points: points, state: ledger.StateRefused, code: "process_unavailable"}
}

// TestCrash kills real processes at every step of a post's way, and starts them again. No post is sent twice, none is
// sent without its record and its keys, and what cannot be known is recorded as indeterminate. An agent that tries
// again with the same event does not get a second post.
func TestCrash(t *testing.T) {
	t.Parallel()
	binary := kit.Program(t, "failpoint")
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		r := newCrashRig(t, binary, "")
		for _, c := range append(elsewhere, inLedger...) {
			t.Run(c.name(), func(t *testing.T) { r.play(t, c) })
		}
	})
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		r := newCrashRig(t, binary, kit.Database(t))
		for _, c := range inLedger {
			t.Run(c.name(), func(t *testing.T) { r.play(t, c) })
		}
	})
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

// TestCrashWhileDelivering kills the trigger service while an event is delivered and claimed. Its sender delivers again
// what was not answered. In the end there is one event, which opens one session at most.
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

// TestReleaseHasNoFailpoints: the program as it is released contains nothing of package failpoint.
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
