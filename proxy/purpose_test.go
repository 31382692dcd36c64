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
