package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
)

func TestLogOfCalls(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	var actions []rules.Action
	p := newPostRig(t, created, func(o *PipelineOptions, all []rules.Action) { actions, o.Log = all, zap.New(core) })
	denied, err := match.ParseDenied([]string{p.base + "/metrics/**"})
	must(t, err)
	others := []rules.Egress{{Name: "others", Match: matching(t, p.base+"/**", "GET", "PUT")}}
	p.pipeline.o.Rules, err = rules.New(actions, others, denied)
	must(t, err)
	for _, tt := range []struct {
		name, method, path, body string
		fails                    string
		code                     string
		quiet                    bool
	}{
		{name: "a read", method: "GET", path: "/x"},
		{name: "a write that is no post", method: "PUT", path: "/inference", body: "{}"},
		{name: "a post", method: "POST", path: "/posts", body: "{}"},
		{name: "a refused post", method: "POST", path: "/posts", body: "{}", fails: "decision", code: "internal"},
		{name: "a refused read", method: "GET", path: "/a//b", code: "request_malformed"},
		{name: "a denied post", method: "POST", path: "/metrics/x", body: "{}", quiet: true},
		{name: "a denied read that a rule allows", method: "GET", path: "/metrics%2fx", quiet: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.fails != "" {
				p.roles.fail[tt.fails] = errors.New("fault")
				defer delete(p.roles.fail, tt.fails)
			}
			p.send(tt.method, tt.path, tt.body)
			lines := logged.FilterMessage("call").TakeAll()
			if tt.quiet {
				if rec, _ := p.record.last(); len(lines) != 0 || rec.Code != problem.CallDenied {
					t.Errorf("the record is %+v, the lines are %+v", rec, lines)
				}
				return
			}
			if len(lines) != 1 || lines[0].ContextMap()["code"] != tt.code ||
				lines[0].ContextMap()["method"] != tt.method {
				t.Errorf("the lines are %+v", lines)
			}
			_ = logged.TakeAll()
		})
	}
}

func TestLogOfALedgerThatIsAway(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { o.Log = zap.New(core) })
	p.record.away = true
	p.wantRefused("request_malformed", "GET", "/a//b", "")
	lines := logged.FilterMessage("the record of a call could not be stored at once; it waits in memory").All()
	if len(lines) != 1 {
		t.Fatalf("the lines are %+v", logged.All())
	}
	rec, _ := p.record.last()
	said := lines[0].ContextMap()
	if said["post"] != rec.ID || !strings.Contains(fmt.Sprint(said["error"]), "the file is locked") {
		t.Errorf("the log says %v", said)
	}
}
