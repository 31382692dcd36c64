package node_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/node"
)

func TestTarget(t *testing.T) {
	owner := strings.Repeat("o", 43)
	agent, dispute := "/v1/reputation/"+owner+":", "dsp_"+strings.Repeat("0a", 16)
	for request, want := range map[string]string{ // empty: refused
		agent + "agent:worker-1":                  agent + "agent:worker-1",
		agent + "agent%3Aworker-1":                agent + "agent:worker-1",
		"/v1/reputation/" + owner + "%3aworker-1": agent + "worker-1",
		agent + "agent%253Aworker-1":              "",
		"/v1/reputation%3A" + owner + ":worker-1": "",
		agent:                                         "",
		agent + "a/b":                                 "",
		agent + "..%2F..%2F..%2Fmetrics":              "",
		agent + "%61":                                 "",
		agent + "agent:worker-1?after=1":              "",
		"/v1/reputation/":                             "",
		"/v1/reputation/agent:worker-1":               "",
		"/v1/score/" + strings.Repeat("0a", 32):       "/v1/score/" + strings.Repeat("0a", 32),
		"/v1/score/" + strings.Repeat("0a", 32) + "/": "",
		"/v1/challenge/issue":                         "",

		"/v1/signals/sig_1":                 "/v1/signals/sig_1",
		"/v1/signals/a:b.c-d_e":             "/v1/signals/a:b.c-d_e",
		"/v1/signals/a%3Ab":                 "/v1/signals/a:b",
		"/v1/signals/%3Aa":                  "",
		"/v1/signals/":                      "",
		"/v1/signals/..":                    "",
		"/v1/signals/a/b":                   "",
		"/v1/signals/%61":                   "",
		"/v1/signals/a?after=1":             "",
		"/v1/signals":                       "",
		"/v1/disputes/" + dispute:           "/v1/disputes/" + dispute,
		"/v1/disputes/" + dispute + "0":     "",
		"/v1/disputes/log":                  "",
		"/v1/disputes/other":                "",
		"/v1/schemas/signal":                "/v1/schemas/signal",
		"/v1/schemas/..":                    "",
		"/v1/schemas/":                      "",
		"/v1/signals?agent=" + owner + ":a": "",
	} {
		path, query, _ := strings.Cut(request, "?")
		if got, ok := node.Target(http.MethodGet, path, query); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %t", request, got, ok)
		}
		if got, ok := node.Target(http.MethodPost, path, query); ok != (request == "/v1/challenge/issue") || ok &&
			got != request {
			t.Errorf("POST %s: %q, %t", request, got, ok)
		}
		if got, ok := node.Target(http.MethodDelete, path, query); ok {
			t.Errorf("DELETE %s: %q", request, got)
		}
	}
}
