package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
)

// wantSameReading checks that Go's own reader, which ignores case and takes the last of two members, reads the same.
func wantSameReading(t *testing.T, body []byte, m *mcp.Message) {
	t.Helper()
	var lenient struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, URI string
			Arguments json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &lenient); err != nil {
		return // it reads none of it
	}
	if lenient.Method != m.Method {
		t.Errorf("the method %q is read as %q", m.Method, lenient.Method)
	}
	if m.IsCall() && (lenient.Params.Name != m.Name || string(lenient.Params.Arguments) != string(m.Arguments)) {
		t.Errorf("the call %q %s is read as %q %s", m.Name, m.Arguments, lenient.Params.Name, lenient.Params.Arguments)
	}
	if lenient.ID == nil != (m.ID == "") {
		t.Errorf("the id %s is read as %s", m.ID, lenient.ID)
	}
}

// TestMemoryOfTools: what a session keeps of a tool's definition, a server chooses.
func TestMemoryOfTools(t *testing.T) {
	const tools, kept = 128, 16 << 10
	w := watch(nil, new(mcp.Memory))
	rule := &mcp.Rule{ListAll: true}
	w.Rules = []*mcp.Rule{rule}
	var properties []string
	for i := range 32 {
		properties = append(properties, fmt.Sprintf(`"%s%02d":{"x-mcp-header":"h%d"}`, strings.Repeat("p", 1000), i, i),
			fmt.Sprintf(`"%s%02d":{"x-mcp-header":"k%d"}`, strings.Repeat("p", 200), i, i))
	}
	schema := `"inputSchema":{"properties":{` + strings.Join(properties, ",") + `}}`
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range tools {
		name := fmt.Sprintf("tool%d", i)
		rule.Tools = append(rule.Tools, name)
		a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {stream}})
		say(a, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":%q,%s}]}}`, name, schema))
		a.Close()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / tools; n > kept {
		t.Errorf("a session keeps %d bytes of a tool's definition, want at most %d", n, kept)
	}
	runtime.KeepAlive(w)
}
