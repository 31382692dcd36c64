package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/rules"
)

// ending is the purpose of a rule that expires when a clock of the test says so.
func ending(clock *atomic.Int64, o *PipelineOptions) match.Purpose {
	o.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	return match.Purpose{Comment: "for the move", Owner: "ann@example.org", Expires: time.Now().Add(time.Hour)}
}

// TestExpiredRules: a rule ends in the middle of a session, for posts and reads, and the agent learns whom to ask.
func TestExpiredRules(t *testing.T) {
	var clock atomic.Int64
	var purpose match.Purpose
	p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		purpose = ending(&clock, o)
		actions[0].Purpose = purpose
		o.Rules = rulesFor(t, actions, []rules.Egress{
			{Name: "reads", Purpose: purpose, Match: matchAt(actions[0], "/reads", "GET")},
			{Name: "others", Match: matchAt(actions[0], "/others", "GET")},
		})
	})
	p.want(http.StatusCreated, "POST", "/posts", `{"a":1}`)
	p.want(http.StatusCreated, "GET", "/reads", "")
	var shown own.Rules
	body := p.want(http.StatusOK, "GET", ownURL+"/v1/rules", "")
	must(t, json.Unmarshal([]byte(body), &shown))
	if got := shown.Rules[0].Purpose; got.Owner != purpose.Owner || !got.Expires.Equal(purpose.Expires) {
		t.Errorf("the agent is shown %+v", got)
	}
	clock.Store(int64(time.Hour))
	sent := len(p.sent)
	for method, path := range map[string]string{"POST": "/posts", "GET": "/reads"} {
		body := p.want(http.StatusForbidden, method, path, "")
		var said struct {
			Detail string
			Rule   struct {
				Name string
				match.Purpose
			}
		}
		must(t, json.Unmarshal([]byte(body), &said))
		if said.Rule.Name != path[1:] || said.Rule.Comment != purpose.Comment ||
			!strings.HasSuffix(said.Detail,
				purpose.Expires.UTC().Format(time.RFC3339)+"; its owner is ann@example.org") {
			t.Errorf("%s: the agent is told %s", path, body)
		}
		_, n := p.record.last()
		p.wantLast(n, ledger.Record{Code: "rule_expired", State: ledger.StateRefused, Rule: path[1:]})
	}
	if len(p.sent) != sent || len(p.roles.unsent) > 0 {
		t.Errorf("%d calls were sent", len(p.sent)-sent)
	}
	p.want(http.StatusCreated, "GET", "/others", "")
	if body := p.want(http.StatusOK, "GET", ownURL+"/v1/refusals", ""); strings.Count(body, purpose.Comment) != 2 {
		t.Errorf("the refusals are %s", body)
	}
}

// TestExpiredBeforeThePost: a rule expires while the call is judged, also if the API has its own gate.
func TestExpiredBeforeThePost(t *testing.T) {
	for _, takesPart := range []bool{false, true} {
		var admitted atomic.Bool
		expires := time.Now().Add(50 * time.Second) // before the capability ends
		p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
			actions[0].Purpose.Expires, actions[0].TakesPart = expires, takesPart
			o.Now = func() time.Time {
				if admitted.Load() {
					return expires
				}
				return time.Now()
			}
		})
		p.roles.admitted = func() { admitted.Store(true) }
		p.send("POST", "/posts", "{}")
		p.wantLast(1, ledger.Record{State: ledger.StateFailed, Code: "rule_expired"})
		if len(p.sent) > 0 {
			t.Errorf("takes part: %t: the post was sent", takesPart)
		}
	}
}

// TestPurposeInRefusals: a call of a rule that is refused for another reason also says what the rule is for.
func TestPurposeInRefusals(t *testing.T) {
	p := newPostRig(t, created, func(_ *PipelineOptions, actions []rules.Action) { actions[0].Purpose.Owner = "ann" })
	if body := p.want(http.StatusUnprocessableEntity, "POST", "/posts", `{`); !strings.Contains(body,
		`"rule":{"name":"posts","owner":"ann"}`) {
		t.Errorf("got %s", body)
	}
	if body := p.want(http.StatusForbidden, "POST", "/none", `{}`); strings.Contains(body, `"rule"`) {
		t.Errorf("no rule: got %s", body)
	}
}

// TestWebSocketOfAnExpiredRule: the clock moves to just before the end when the upstream has the handshake.
func TestWebSocketOfAnExpiredRule(t *testing.T) {
	var shaken atomic.Bool
	expires := time.Now().Add(time.Hour)
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		shaken.Store(true)
		echoSocket(w, r)
	}, func(o *PipelineOptions, actions []rules.Action) {
		o.Now = func() time.Time {
			if shaken.Load() {
				return expires.Add(-time.Millisecond)
			}
			return time.Now()
		}
		o.Rules = rulesFor(t, actions, []rules.Egress{{Name: "sockets", Purpose: match.Purpose{Expires: expires},
			Match: matchAt(actions[0], "/ws", "GET"), Credential: actions[0].Credential, WebSocket: true}})
	})
	c, resp := p.open("/ws")
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d", resp.StatusCode)
	}
	must(t, c.SetDeadline(time.Now().Add(3*time.Minute)))
	p.wantEnd(c, "rule_expired", 0)
}

// TestStreamOfAnExpiredRule: the upstream's answer would never end.
func TestStreamOfAnExpiredRule(t *testing.T) {
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		flush(w, "begun")
		<-r.Context().Done()
	}, func(o *PipelineOptions, actions []rules.Action) {
		o.Rules = rulesFor(t, actions, []rules.Egress{{Name: "streams", Match: matchAt(actions[0], "/**", "GET"),
			Purpose: match.Purpose{Expires: time.Now().Add(time.Second)}}})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	resp := p.start(ctx, "GET", "/stream", "")
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if rec := p.wait(1); rec.Code != "rule_expired" {
		t.Errorf("the record is %+v", rec)
	}
}

// TestUploadOfAnExpiredRule: the client sends nothing more, over HTTP/1, and the upstream waits for it.
func TestUploadOfAnExpiredRule(t *testing.T) {
	p := newPostRig(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		func(o *PipelineOptions, actions []rules.Action) {
			o.Timeouts.Forward = time.Hour
			o.Rules = rulesFor(t, actions, []rules.Egress{{Name: "uploads", Match: matchAt(actions[0], "/**", "PUT"),
				Purpose: match.Purpose{Expires: time.Now().Add(time.Second)}}})
		})
	body, request := io.Pipe()
	defer request.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	upload := p.request(ctx, "PUT", "/upload", "")
	upload.Body, upload.ContentLength = body, -1
	go func() {
		if resp, err := p.client.Do(upload); err == nil {
			_ = resp.Body.Close()
		}
	}()
	_, _ = io.WriteString(request, "begun")
	if rec := p.wait(1); rec.Code != "rule_expired" || ctx.Err() != nil {
		t.Errorf("the record is %+v", rec)
	}
}
