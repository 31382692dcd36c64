package trigger_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/trigger"
)

func (k *kit) serve(t *testing.T) (*trigger.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(trigger.NewServer(k.Service))
	t.Cleanup(server.Close)
	return trigger.NewClient(server.URL, server.Client()), server
}

func TestClient(t *testing.T) {
	k := newKit(t)
	c, _ := k.serve(t)
	id := k.release(t)
	e := must(c.Claim(t.Context(), trigger.Claim{Runtime: runtime, Wait: time.Second}))(t)
	if e.ID != id || e.State != trigger.Claimed || e.ClaimedBy != runtime || len(e.Payload) == 0 {
		t.Errorf("claimed %+v", e)
	}
	if e := must(c.Release(t.Context(), id, runtime))(t); e.State != trigger.Received {
		t.Errorf("released %+v", e)
	}
	must(c.Claim(t.Context(), trigger.Claim{EventID: id, Runtime: runtime}))(t)
	got := must(c.Evidence(t.Context(), id, binding("create_post")))(t)
	must(evidence.Open(k.verifier, evidence.TriggerReceiptKind(), got.TriggerReceipt,
		expect("trigger-mediator", "runtime", "trigger-receipt-key")))(t)
	if e := must(c.Done(t.Context(), id, runtime))(t); e.State != trigger.Done {
		t.Errorf("done %+v", e)
	}
	reported := must(
		c.Report(t.Context(), evidence.TriggerHumanRequest, evidence.MethodManual, "cli", []byte(`{"why":"<b>"}`)))(t)
	if e := k.event(t, reported); !e.HumanInitiated || e.Method != evidence.MethodManual ||
		e.Source != "cli" {
		t.Errorf("reported %+v", e)
	}
	must(c.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodSelfReported, "agent", nil))(t)
}

func TestClientRefusals(t *testing.T) {
	k := newKit(t)
	c, server := k.serve(t)
	id := k.claimed(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // the claims do not wait
	defer cancel()
	b := binding("create_post")
	must(c.Evidence(t.Context(), id, b))(t)
	other := binding("create_post")
	other.Nonce = ""
	report := func(kind, method, source string, payload []byte) error {
		return second(c.Report(t.Context(), kind, method, source, payload))
	}
	for _, c := range []struct {
		code string
		err  error
	}{
		{"event_closed", second(c.Evidence(t.Context(), id, b))},
		{"artifact_malformed", second(c.Evidence(t.Context(), id, other))},
		{"not_found", second(c.Evidence(t.Context(), "evt_none", b))},
		{"event_none", second(c.Claim(ctx, trigger.Claim{Runtime: runtime}))},
		{"event_closed", second(c.Claim(ctx, trigger.Claim{EventID: id, Runtime: runtime}))},
		{"query_malformed", second(c.Claim(t.Context(), trigger.Claim{}))},
		{"event_closed", second(c.Done(t.Context(), k.release(t), runtime))},
		{"trigger_unverified", report(evidence.TriggerSourceEvent, evidence.MethodManual, "cli", nil)},
		{"event_malformed", report(evidence.TriggerUnknown, evidence.MethodManual, "", nil)},
	} {
		wantCode(t, c.err, c.code)
	}
	wantCode(t, report(evidence.TriggerUnknown, evidence.MethodWebhookSignature, "cli", nil), "trigger_unverified")
	server.Close()
	wantCode(t, second(c.Evidence(t.Context(), id, b)), "process_unavailable")
}

// TestLyingService: what a taken-over trigger service answers does not fill the record.
func TestLyingService(t *testing.T) {
	long := strings.Repeat("x", 17<<10)
	var answer string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	c := trigger.NewClient(s.URL, s.Client())
	for _, answer = range []string{`{}`, `{"originProof":"x","triggerReceipt":"` + long + `"}`,
		`{"originProof":"` + long + `","triggerReceipt":"x"}`} {
		wantCode(t, second(c.Evidence(t.Context(), "evt_1", binding("create_post"))), "process_unavailable")
	}
	for _, answer = range []string{`{}`, `{"id":"` + long + `"}`, `{"id":"evt_2"}`} {
		wantCode(t, second(c.Claim(t.Context(), trigger.Claim{EventID: "evt_1", Runtime: runtime})),
			"process_unavailable")
	}
}

// TestCallersHaveTheirOwnEvents: nothing is done in the name of another runtime than the caller's, nor for its event.
func TestCallersHaveTheirOwnEvents(t *testing.T) {
	k := newKit(t)
	as := func(caller string) *trigger.Client {
		own := trigger.NewServer(k.Service)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			own.ServeHTTP(w, r.WithContext(wire.WithCaller(r.Context(), wire.Caller{ID: "x", Runtime: caller})))
		}))
		t.Cleanup(server.Close)
		return trigger.NewClient(server.URL, server.Client())
	}
	id, mine, other := k.release(t), as(runtime), as("other")
	wantCode(t, second(other.Claim(t.Context(), trigger.Claim{EventID: id, Runtime: runtime})), "runtime_foreign")
	must(mine.Claim(t.Context(), trigger.Claim{EventID: id, Runtime: runtime}))(t)
	wantCode(t, second(other.Evidence(t.Context(), id, binding("create_post"))), "runtime_foreign")
	must(mine.Evidence(t.Context(), id, binding("create_post")))(t)
	wantCode(t, other.Unsent(t.Context(), id, runtime, "create_post", "x"), "runtime_foreign")
	wantCode(t, second(other.Release(t.Context(), id, runtime)), "runtime_foreign")
	wantCode(t, second(other.Done(t.Context(), id, runtime)), "runtime_foreign")
	must(mine.Done(t.Context(), id, runtime))(t)
}

func TestServerRefuses(t *testing.T) {
	k := newKit(t)
	_, server := k.serve(t)
	id := k.claimed(t)
	bind := `{"action":"a","contentHash":"` + evidence.HashBytes(nil) + `","nonce":"n","resource":"r","subject":"s"}`
	for _, c := range []struct{ name, method, path, body, code string }{
		{"nothing", "POST", "/v1/evidence", "", "query_malformed"},
		{"no JSON", "POST", "/v1/evidence", "{", "query_malformed"},
		{"an unknown member", "POST", "/v1/evidence", `{"eventId":"` + id + `","binding":` + bind + `,"budget":9}`,
			"query_malformed"},
		{"a member twice", "POST", "/v1/evidence", `{"eventId":"` + id + `","eventId":"` + id + `","binding":` + bind + `}`,
			"query_malformed"},
		{"a second value", "POST", "/v1/evidence", `{"eventId":"` + id + `","binding":` + bind + `}{}`, "query_malformed"},
		{"no binding", "POST", "/v1/evidence", `{"eventId":"` + id + `"}`, "artifact_malformed"},
		{"too much", "POST", "/v1/evidence", `{"eventId":"` + strings.Repeat("x", 1<<20) + `"}`, "query_malformed"},
		{"a claim for years", "POST", "/v1/events/claim",
			`{"eventId":"` + id + `","runtime":"w","waitMillis":9007199254740991}`, "event_closed"},
		{"an unknown event", "GET", "/v1/events/evt_none", "", "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := must(http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path,
				strings.NewReader(c.body)))(t)
			resp := must(server.Client().Do(r))(t)
			defer resp.Body.Close()
			wantCode(t, problem.Read(resp), c.code)
		})
	}
	k.pay(t, id, "a") // nothing was spent
}

func TestList(t *testing.T) {
	k := newKit(t)
	_, server := k.serve(t)
	first, second := k.claimed(t), k.release(t)
	events := must(k.List(t.Context(), 10))(t)
	if len(events) != 2 || events[0].ID != second || events[1].ID != first || events[1].State != trigger.Claimed ||
		events[0].Payload != nil {
		t.Errorf("listed %+v", events)
	}
	if events := must(k.List(t.Context(), 1))(t); len(events) != 1 || events[0].ID != second {
		t.Errorf("of one, listed %+v", events)
	}
	if events := must(k.List(t.Context(), -1))(t); len(events) != 0 {
		t.Errorf("of fewer than none, listed %+v", events)
	}
	for _, path := range []string{"/v1/events", "/v1/events/" + first} {
		resp := must(server.Client().Get(server.URL + path))(t)
		body := string(must(io.ReadAll(resp.Body))(t))
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, first) ||
			strings.Contains(body, `"payload"`) != (path != "/v1/events") {
			t.Errorf("GET %s: %d %s", path, resp.StatusCode, body)
		}
	}
}
