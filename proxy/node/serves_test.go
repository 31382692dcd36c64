package node_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/node"
)

// TestServes: what the node is asked is what the path says, however it is spelled.
func TestServes(t *testing.T) {
	agent := "/v1/reputation/" + strings.Repeat("o", 43) + ":"
	for path, want := range map[string]bool{
		agent + "agent:worker-1":                      true,
		agent:                                         false,
		agent + "a/b":                                 false,
		agent + "..%2F..%2F..%2Fmetrics":              false,
		agent + "%61":                                 false,
		"/v1/reputation/":                             false,
		"/v1/reputation/agent:worker-1":               false,
		"/v1/score/" + strings.Repeat("0a", 32):       true,
		"/v1/score/" + strings.Repeat("0a", 32) + "/": false,
		"/v1/challenge/issue":                         false,
	} {
		if got := node.Serves(http.MethodGet, path); got != want {
			t.Errorf("%s: %t", path, got)
		}
		if node.Serves(http.MethodPost, path) != (path == "/v1/challenge/issue") {
			t.Errorf("POST %s", path)
		}
	}
}
