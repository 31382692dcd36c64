package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/trigger"
)

// Most clients show only the status line of the answer to a CONNECT.
func TestRefusedConnectSaysWhy(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { o.Tracer = tracer })
	for i, tt := range []struct{ name, host, credentials, line string }{
		{"no rule", "nowhere.example:443", "", "403 egress_denied: no rule allows any call to nowhere.example"},
		{"no session", "nowhere.example:443", basic("ses_x", "y"),
			"407 session_required: the proxy credentials belong to no session, or to an ended one"},
		{"no target", "nowhere.example", "",
			`400 request_malformed: the CONNECT target "nowhere.example" names no port`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp", p.Addr)
			must(t, err)
			defer c.Close()
			head := "CONNECT " + tt.host + " HTTP/1.1\r\nHost: " + tt.host + "\r\n"
			if tt.credentials != "" {
				head += "Proxy-Authorization: " + tt.credentials + "\r\n"
			}
			_, err = io.WriteString(c, head+"\r\nGET /behind HTTP/1.1\r\nHost: a\r\n\r\n")
			must(t, err)
			r := bufio.NewReader(c)
			resp, err := http.ReadResponse(r, nil)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			code, _, _ := strings.Cut(strings.TrimPrefix(tt.line, resp.Status[:4]), ":")
			var d problem.Details
			if err := json.Unmarshal(body, &d); err != nil || resp.Status != tt.line || !resp.Close || d.Code != code {
				t.Errorf("%s, %v\n%s, want %s", resp.Status, resp.Header, body, tt.line)
			}
			p.wantLast(i+1, ledger.Record{Code: code, State: ledger.StateRefused, ID: d.Post})
			if resp.Header.Get("Content-Type") != problem.ContentType {
				t.Errorf("the header is %v", resp.Header)
			}
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("behind the answer came %q, %v", rest, err)
			}
		})
	}
	roundTripRaw(t, p.Dial(), "GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
	p.wantLast(4, ledger.Record{Code: "not_a_proxy_request", State: ledger.StateRefused})
	calls := 0
	for _, s := range spans.Started() {
		if !s.Parent().IsValid() { // else of a step
			calls++
		}
	}
	if calls != 4 {
		t.Errorf("four calls have begun %d spans", calls)
	}
}

func TestOwnRefusals(t *testing.T) {
	p := newPostRig(t, created, nil)
	ask := func(credentials ...string) (d own.Refusals) {
		t.Helper()
		_, body := p.send("GET", ownURL+"/v1/refusals", "", credentials...)
		must(t, json.Unmarshal([]byte(body), &d))
		return d
	}
	if d := ask(); d.Session != p.session.ID || d.Refusals == nil || len(d.Refusals) != 0 {
		t.Errorf("before anything was refused: %+v", d)
	}
	c := p.Dial()
	_, err := io.WriteString(c, "CONNECT nowhere.example:443 HTTP/1.1\r\nHost: nowhere.example:443\r\n\r\n")
	must(t, err)
	_, err = http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	c.Close()
	p.roles.fail["decision"] = refusal.New("process_unavailable", "10.0.0.1 is away")
	p.send("POST", "/posts", "{}")
	p.send("GET", ownURL+"/v1/nothing", "") // not a call to anywhere
	last, _ := p.record.last()
	d := ask()
	if len(d.Refusals) != 2 {
		t.Fatalf("got %+v", d)
	}
	post, tunnel := d.Refusals[0], d.Refusals[1]
	if post.Code != "process_unavailable" || strings.Contains(fmt.Sprint(post), "10.0.0.1") ||
		!strings.Contains(post.Detail, "mediator posts show "+post.Post) || post.Method != "POST" ||
		post.Path != "/posts" || post.State != "refused" || post.Remedy == "" || post.Time.IsZero() {
		t.Errorf("the newest is %+v, the last record %+v", post, last)
	}
	if tunnel.Code != "egress_denied" || tunnel.Detail != "no rule allows any call to nowhere.example" ||
		tunnel.Host != "nowhere.example:443" || tunnel.Method != "CONNECT" {
		t.Errorf("the refused CONNECT is %+v", tunnel)
	}

	other, password, err := p.sessions.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil)
	must(t, err)
	credentials := basic(other.ID, password)
	if d := ask("Proxy-Authorization", credentials); d.Session != other.ID || len(d.Refusals) != 0 {
		t.Errorf("another session is told %+v", d)
	}
	// A refusal before a request belongs to the listener's session, not to the standing one.
	ctx := intercept.WithRoute(t.Context(), intercept.Route{Session: other.ID})
	p.pipeline.Refused(ctx, refusal.New("tls_handshake_failed", "the client ended it"))
	if d := ask("Proxy-Authorization", credentials); len(d.Refusals) != 1 ||
		d.Refusals[0].Code != "tls_handshake_failed" {
		t.Errorf("the session of the listener is told %+v", d)
	}
	if rec, _ := p.record.last(); len(ask().Refusals) != 2 || rec.Session == "" {
		t.Errorf("the other is told %+v", ask())
	}

	for i := range 40 {
		p.send("DELETE", fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 2000)), "")
	}
	if d := ask(); len(d.Refusals) != session.MaxRefusals || !strings.HasPrefix(d.Refusals[0].Path, "/39/aa") ||
		!strings.HasPrefix(d.Refusals[15].Path, "/24/") || len(d.Refusals[0].Path) > 300 {
		t.Errorf("%d are kept, the newest %+v", len(d.Refusals), d.Refusals[0])
	}
	p.sessions.CloseStanding("")
	p.wantRefused("session_required", "GET", ownURL+"/v1/refusals", "")
	p.wantRefused("session_required", "GET", ownURL+"/v1/rules", "")
}

func TestOwnRules(t *testing.T) {
	p := newPostRig(t, created, nil)
	ask := func() (d own.Rules, body string) {
		t.Helper()
		_, body = p.send("GET", ownURL+"/v1/rules", "")
		must(t, json.Unmarshal([]byte(body), &d))
		return d, body
	}
	d, body := ask()
	if d.Session != p.session.ID || d.Event != "evt_1" || len(d.Rules) != 6 || d.More {
		t.Fatalf("got %s", body)
	}
	posts, reads := d.Rules[0], d.Rules[4]
	if posts.Name != "posts" || posts.Kind != "post" || posts.Action != "create_post" || posts.URL != p.base+"/posts" ||
		len(posts.Methods) != 1 || posts.Methods[0] != "POST" {
		t.Errorf("the action is %+v in %s", posts, body)
	}
	if reads.Name != "reads" || reads.Kind != "egress" || reads.URL != p.base+"/**" {
		t.Errorf("the egress rule is %+v", reads)
	}
	if strings.Contains(body, secretToken) || strings.Contains(body, "Bearer") {
		t.Errorf("it shows a credential: %s", body)
	}
}

type slowTriggers struct {
	Triggers
	claimed, done []string
	none          bool
}

func (s *slowTriggers) Claim(ctx context.Context, c trigger.Claim) (trigger.Event, error) {
	time.Sleep(time.Second)
	if s.none {
		return trigger.Event{}, refusal.New("event_none", "")
	}
	id := "evt_" + string(rune('1'+len(s.claimed)))
	s.claimed = append(s.claimed, id)
	return trigger.Event{ID: id, ClaimedBy: c.Runtime}, ctx.Err()
}

func (s *slowTriggers) Done(_ context.Context, id, _ string) (trigger.Event, error) {
	s.done = append(s.done, id)
	return trigger.Event{}, nil
}

// Calls that wait for the next event together share it, and no event stays claimed without a session.
func TestNextEventTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		triggers := &slowTriggers{}
		p := &Pipeline{o: PipelineOptions{
			Rules: new(rules.Rules), Standing: true, Sessions: session.NewSet(time.Now), Now: time.Now,
			EvidenceOptions: EvidenceOptions{RuntimeID: "worker-1", Triggers: triggers},
			RecordOptions:   RecordOptions{Log: zap.NewNop()},
		}}
		type answer struct{ event, code string }
		answers := make(chan answer, 8)
		next := func(ctx context.Context, wait string) {
			document, err := p.pages().Page(
				httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/event/next?wait="+wait, nil),
				intercept.Route{})
			if err != nil {
				answers <- answer{code: codeOf(err)}
				return
			}
			answers <- answer{event: document.(own.Event).Event.ID}
		}
		gone, leave := context.WithCancel(t.Context())
		go next(t.Context(), "10s")
		synctest.Wait()
		go next(t.Context(), "10s")
		go next(t.Context(), "500ms")
		go next(t.Context(), "0s")
		go next(gone, "10s")
		synctest.Wait()
		leave()
		time.Sleep(time.Second)
		synctest.Wait()
		want := []answer{{code: "event_none"}, {code: "event_none"}, {code: "event_none"}, {event: "evt_1"},
			{event: "evt_1"}}
		for i, w := range want {
			if got := <-answers; got != w {
				t.Errorf("answer %d: %+v, want %+v", i, got, w)
			}
		}

		next(t.Context(), "10s") // ends the open session and gets the next event
		if got := <-answers; got.event != "evt_2" || !slices.Equal(triggers.claimed, []string{"evt_1", "evt_2"}) ||
			!slices.Equal(triggers.done, []string{"evt_1"}) {
			t.Errorf("%+v, claimed %v, done %v", got, triggers.claimed, triggers.done)
		}
		open := func(when string) {
			t.Helper()
			if s := p.o.Sessions.Standing(""); s == nil || s.Event.ID != "evt_2" || s.Life().Err() != nil ||
				!slices.Equal(triggers.done, []string{"evt_1"}) {
				t.Errorf("%s: the open session is %+v, done %v", when, s, triggers.done)
			}
		}
		open("after it was opened")
		triggers.none = true
		go next(t.Context(), "10s")
		synctest.Wait()
		open("while the next event is waited for")
		if got := <-answers; got.code != "event_none" {
			t.Errorf("%+v, want event_none", got)
		}
		open("after none came")
	})
}
