package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

func TestRulesThatAreRefused(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for name, tt := range map[string]struct {
		rules []*mcp.Rule
		want  string
	}{
		"a wildcard":               {[]*mcp.Rule{{Tools: []string{"*"}}}, "not the name of a tool"},
		"a name with a space":      {[]*mcp.Rule{{Tools: []string{"create issue"}}}, "not the name of a tool"},
		"a name that is not ASCII": {[]*mcp.Rule{{Tools: []string{"сreate_issue"}}}, "not the name of a tool"},
		"a name in quotes":         {[]*mcp.Rule{{Tools: []string{`"\x01"`}}}, "not the name of a tool"},
		"an empty name":            {[]*mcp.Rule{{Tools: []string{""}}}, "not the name of a tool"},
		"an action without tools":  {[]*mcp.Rule{{Post: true}}, "an action must name its tools"},
		"tools/call as a method":   {[]*mcp.Rule{{Methods: []string{"tools/call"}}}, "name the tools"},
		"a pin of another tool": {[]*mcp.Rule{{Tools: []string{"a"}, Pin: map[string]string{"b": hash}}},
			"which it does not name"},
		"a pin that is no hash": {
			[]*mcp.Rule{{Tools: []string{"a"}, Pin: map[string]string{"a": "sha256:" + hash}}},
			"not a lowercase hex SHA-256"},
		"a tool twice": {[]*mcp.Rule{{Tools: []string{"a"}, Post: true}, {Tools: []string{"a"}}},
			`name the tools "a" and "a"`},
		"a tool in another case": {
			[]*mcp.Rule{{Tools: []string{"create_issue"}, Post: true}, {Tools: []string{"Create_Issue"}}},
			"name the tools"},
		"the usual methods twice": {[]*mcp.Rule{{Tools: []string{"a"}}, {Tools: []string{"b"}}},
			"a rule that leaves out methods names the usual ones"},
		"a method twice": {[]*mcp.Rule{{Methods: []string{"ping"}}, {Methods: []string{"ping"}}},
			`name the method "ping"`},
		"two egress rules and an action": {
			[]*mcp.Rule{{Tools: []string{"c"}, Post: true}, {Tools: []string{"a"}},
				{Tools: []string{"b"}, Methods: []string{}}},
			""},
		"a rule about methods alone":     {[]*mcp.Rule{{}}, ""},
		"a pin":                          {[]*mcp.Rule{{Tools: []string{"a"}, Pin: map[string]string{"a": hash}}}, ""},
		"a name of all kinds of letters": {[]*mcp.Rule{{Tools: []string{"a.B-c_d/e:1"}}}, ""},
		"two actions with tools of their": {
			[]*mcp.Rule{{Tools: []string{"a"}, Post: true}, {Tools: []string{"b"}, Post: true}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcp.CheckRules(tt.rules)
			for _, r := range tt.rules {
				if err == nil {
					err = r.Check()
				}
			}
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}

// TestHeadersOfStreams: some servers take an underscore for a hyphen, and so would open another stream.
func TestHeadersOfStreams(t *testing.T) {
	for name, code := range map[string]string{"Mcp_session_id": "override_refused", "Mcp-Session_id": "override_refused",
		"Last_event_id": "override_refused", "Mcp-Session-Id": "", "Last-Event-Id": "", "X_a": ""} {
		err := mcp.CheckStream(http.Header{name: {"x"}})
		if err == nil && code != "" || err != nil && check.CodeOf(err) != code {
			t.Errorf("%s: %v, want %q", name, err, code)
		}
	}
}

func TestLongHeaders(t *testing.T) {
	for name, n := range map[string]int{"Mcp-Session-Id": 4097, "Last-Event-Id": 4097} {
		check.WantCode(t, mcp.CheckStream(http.Header{name: {strings.Repeat("x", n)}}), "message_malformed")
		if err := mcp.CheckStream(http.Header{name: {strings.Repeat("x", n-1)}}); err != nil {
			t.Error(err)
		}
	}
	_, err := mcp.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`),
		http.Header{"Mcp-Session-Id": {strings.Repeat("x", 4097)}})
	check.WantCode(t, err, "message_malformed")
}

func TestSameConnection(t *testing.T) {
	said := rules("")
	said[0].SameConnection = true
	post := read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_issue"}}`)
	for _, h := range []http.Header{{}, {"Accept": {"*/*"}},
		{"Mcp-Protocol-Version": {"2024-11-05"}, "Accept": {"application/json, text/event-stream"}}} {
		if v, err := mcp.Judge(post, h, said, peer, new(mcp.Memory)); err != nil || v.Rule != 0 {
			t.Errorf("%v: %+v, %v", h, v, err)
		}
		_, err := mcp.Judge(post, h, rules(""), peer, new(mcp.Memory))
		check.WantCode(t, err, "mcp_transport_unsupported")
	}
}

func TestWhatAPostAccepts(t *testing.T) {
	for accept, want := range map[string]string{
		"application/json, text/event-stream": "", "text/event-stream;q=0.5, application/json;charset=utf-8": "",
		"application/json": "mcp_transport_unsupported", "text/event-stream": "mcp_transport_unsupported",
		"*/*": "mcp_transport_unsupported", "": "mcp_transport_unsupported",
	} {
		h := http.Header{"Accept": {accept}}
		_, err := mcp.Judge(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_issue"}}`), h,
			rules(""), peer, new(mcp.Memory))
		if (err == nil) != (want == "") || err != nil && check.CodeOf(err) != want || err != nil &&
			!strings.Contains(err.Error(), "send the header Accept: application/json, text/event-stream") {
			t.Errorf("%q: %v", accept, err)
		}
		if _, err := mcp.Judge(read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue"}}`), h,
			rules(""), peer, new(mcp.Memory)); err != nil {
			t.Errorf("a read that accepts %q: %v", accept, err)
		}
	}
}

// The arguments are read once: reading them for each header would take too long.
func TestManyParamHeaders(t *testing.T) {
	args := `{"z":"` + strings.Repeat("x", 1<<20) + `","a":"v"}`
	for range 55 {
		args = `{"a":` + args + `}`
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_issue","arguments":` + args + `}}`
	h := make(http.Header)
	for i := range 4000 {
		h.Set(fmt.Sprintf("Mcp-Param-%d", i), "v")
	}
	_, err := mcp.Read([]byte(body), h)
	check.Must(t, err)
	h.Set("Mcp-Param-0", "w")
	_, err = mcp.Read([]byte(body), h)
	check.WantCode(t, err, "mcp_header_mismatch")
}
