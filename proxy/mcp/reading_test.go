package mcp_test

import (
	"encoding/json"
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
