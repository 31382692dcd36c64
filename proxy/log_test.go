package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestLogOfCalls(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { o.Log = zap.New(core) })
	for _, tt := range []struct {
		name, method, path, body string
		fails                    string
		code                     string
	}{
		{name: "a read", method: "GET", path: "/x"},
		{name: "a write that is no post", method: "PUT", path: "/inference", body: "{}"},
		{name: "a post", method: "POST", path: "/posts", body: "{}"},
		{name: "a refused post", method: "POST", path: "/posts", body: "{}", fails: "decision", code: "internal"},
		{name: "a refused read", method: "GET", path: "/a//b", code: "request_malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.fails != "" {
				p.roles.fail[tt.fails] = errors.New("fault")
				defer delete(p.roles.fail, tt.fails)
			}
			p.send(tt.method, tt.path, tt.body)
			lines := logged.FilterMessage("call").TakeAll()
			if len(lines) != 1 || lines[0].ContextMap()["code"] != tt.code || lines[0].ContextMap()["method"] != tt.method {
				t.Errorf("the lines are %+v", lines)
			}
			_ = logged.TakeAll()
		})
	}
}

func TestLogOfALedgerThatIsAway(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { o.Log = zap.New(core) })
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
