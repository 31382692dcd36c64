package operation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// collector is the OTLP receiver of the OpenTelemetry collector: test/collector.
type collector struct {
	address string

	mu    sync.Mutex
	lines [][]byte
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	address, err := freeport.Address()
	check.Must(t, err)
	c := &collector{address: address}
	cmd := exec.CommandContext(t.Context(), "../../../bin/collector", address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check.Must(t, err, cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewReader(out)
		for line, err := lines.ReadBytes('\n'); err == nil; line, err = lines.ReadBytes('\n') {
			c.mu.Lock()
			c.lines = append(c.lines, line)
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done; _ = cmd.Wait() })
	if !kit.Eventually(func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}) {
		t.Fatal("the collector does not listen")
	}
	return c
}

// span is a span as the collector's JSON has it.
type span struct {
	TraceID      string          `json:"traceId"`
	SpanID       string          `json:"spanId"`
	ParentSpanID string          `json:"parentSpanId"`
	Name         string          `json:"name"`
	Links        json.RawMessage `json:"links"`
	Attributes   json.RawMessage `json:"attributes"`
	service      string
}

// spans returns the received spans by their ids.
func (c *collector) spans(t *testing.T) map[string]span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]span)
	for _, line := range c.lines {
		var request struct {
			ResourceSpans []struct {
				Resource   json.RawMessage `json:"resource"`
				ScopeSpans []struct {
					Spans []span `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		check.Must(t, json.Unmarshal(line, &request))
		for _, r := range request.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					_, of, _ := strings.Cut(string(r.Resource), `"stringValue":"`)
					span.service, _, _ = strings.Cut(of, `"`)
					all[span.SpanID] = span
				}
			}
		}
	}
	return all
}

// TestTraces follows one post through all processes, in one tree of spans that holds no secret.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	r := kit.PrepareClientsRig(t, kit.ManyPosts)
	for _, file := range []string{devstack.SidecarFile, devstack.TriggerFile, devstack.ControlFile} {
		kit.Edit(t, r.In(file), "\ntrust:", fmt.Sprintf("\ntracing: {endpoint: \"http://%s\"}\ntrust:", c.address))
	}
	r.Start(t)
	agent := r.OpenAgent(t)
	agent.MustPost(t)
	post := r.NewestRecord(t, "flow=post")
	var root span
	want := []string{"mediator-serve deployment", "mediator-serve trigger", "mediator-serve decision",
		"mediator-serve consume", "mediator-serve upstream", "mediator-trigger POST /v1/evidence",
		"mediator-control POST /v1/decide"}
	var missing []string
	if !kit.Eventually(func() bool {
		all := c.spans(t)
		found := make(map[string]bool)
		for _, s := range all {
			if strings.Contains(string(s.Attributes), post.ID) {
				root = s
			}
		}
		for _, s := range all {
			top := s
			for top.ParentSpanID != "" && all[top.ParentSpanID].SpanID != "" {
				top = all[top.ParentSpanID]
			}
			if root.SpanID != "" && top.SpanID == root.SpanID && s.TraceID == root.TraceID {
				found[s.service+" "+s.Name] = true
			}
		}
		missing = nil
		for _, name := range want {
			if !found[name] {
				missing = append(missing, name)
			}
		}
		return root.SpanID != "" && len(missing) == 0
	}) {
		t.Fatalf("the trace of %s lacks %q; got %+v", post.ID, missing, c.spans(t))
	}
	check.WantEqual(t, root.Name, "POST comment")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, secret := range []string{"demo-token", kit.Comment, kit.Comments} {
		if bytes.Contains(bytes.Join(c.lines, nil), []byte(secret)) {
			t.Errorf("the spans hold %q", secret)
		}
	}
	if text := kit.Metrics(t, r.Stack.Socket("serve")); !strings.Contains(text, "mediator_trace_spans_sent_total") {
		t.Error("the spans are not counted")
	}
}

// TestAuditExport exports to a file, and after a reload to a collector.
func TestAuditExport(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	r := kit.PrepareClientsRig(t, kit.ManyPosts)
	path := r.In("audit/calls.jsonl")
	check.Must(t, os.Mkdir(filepath.Dir(path), 0o700))
	_, port, _ := net.SplitHostPort(c.address)
	kit.Edit(t, r.In(devstack.SidecarFile), "\naudience: ", "\nconfine: {connect: ["+port+"]}\n"+
		"auditExport: {file: audit/calls.jsonl}\naudience: ")
	r.Start(t)
	agent := r.OpenAgent(t)
	agent.MustPost(t)
	post := r.NewestRecord(t, "flow=post")
	var got ledger.Record
	if !kit.Eventually(func() bool {
		raw, _ := os.ReadFile(path)
		for line := range bytes.Lines(raw[:bytes.LastIndexByte(raw, '\n')+1]) { // the last one may be half written
			check.Must(t, json.Unmarshal(line, &got))
			if got.ID == post.ID {
				return true
			}
		}
		return false
	}) || got.Rule != "comment" || len(got.Artifacts) == 0 {
		t.Fatalf("the file lacks the post: %+v", got)
	}

	kit.Edit(t, r.In(devstack.SidecarFile), "{file: audit/calls.jsonl}",
		fmt.Sprintf("{format: ocsf, otlp: {endpoint: \"http://%s\"}}", c.address))
	_, err := r.Stack.Reload(t.Context())
	check.Must(t, err)
	agent.MustPost(t)
	if !kit.Eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all := string(bytes.Join(c.lines, nil))
		return strings.Contains(all, `\"class_uid\":6003`) && strings.Contains(all, `"log.record.uid"`)
	}) {
		t.Error("the collector lacks the second post")
	}
	text := kit.Metrics(t, r.Stack.Socket("serve"))
	if !strings.Contains(text, "\nmediator_audit_export_failures_total 0") {
		t.Errorf("the export failed:\n%s", text)
	}
}
