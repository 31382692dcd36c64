package config

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/strict"
)

// TestWarnings: what a configuration may say, and its author should know.
func TestWarnings(t *testing.T) {
	const url = "https://api.example.com/"
	api := &API{Challenge: url + "challenge", Verify: url + "verify"}
	plain := Match{URL: url + "posts", Methods: []string{"POST"}}
	for name, tt := range map[string]struct {
		action Action
		egress Egress
		want   string
	}{
		"nothing":               {Action{Match: plain}, Egress{Match: Match{URL: url + "ws", Methods: []string{"GET"}}}, ""},
		"a WebSocket":           {Action{Match: plain}, Egress{Match: Match{URL: url + "ws", Methods: []string{"GET"}}, WebSocket: true}, "websocket_beside_action egress[0].websocket"},
		"a WebSocket of many":   {Action{Match: plain}, Egress{Match: Match{URL: "https://*.example.com/ws", Methods: []string{"GET"}}, WebSocket: true}, "websocket_beside_action egress[0].websocket"},
		"a WebSocket of others": {Action{Match: plain}, Egress{Match: Match{URL: "https://other.example.com/ws", Methods: []string{"GET"}}, WebSocket: true}, ""},
		"an API's gate":         {Action{Match: plain, Gate: "api", API: api}, Egress{Match: Match{URL: url + "ws", Methods: []string{"GET"}}}, ""},
		"an API's gate and tools": {Action{Match: Match{URL: url + "mcp", MCP: &MCP{Tools: []string{"create_issue"}}}, Gate: "api", API: api}, Egress{Match: Match{URL: url + "ws", Methods: []string{"GET"}}},
			"api_gate_resource actions[0].gate"},
		"an API's gate and mutations": {Action{Match: Match{URL: url + "graphql", GraphQL: &GraphQL{Type: "mutation", Fields: []string{"addComment"}}}, Gate: "api", API: api}, Egress{Match: Match{URL: url + "ws", Methods: []string{"GET"}}},
			"api_gate_resource actions[0].gate"},
		"tools and the mediator's own gate": {Action{Match: Match{URL: url + "mcp", MCP: &MCP{Tools: []string{"create_issue"}}}}, Egress{Match: Match{URL: url + "ws", Methods: []string{"GET"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tt.action.Name, tt.action.Subject, tt.action.Action, tt.egress.Name = "a", "s", "a", "e"
			s, f := &Sidecar{Actions: []Action{tt.action}, Egress: []Egress{tt.egress}}, &findings{File: new(strict.File)}
			s.addAction("actions[0]", tt.action, f)
			s.addEgress("egress[0]", tt.egress, f)
			if err := f.err(); err != nil {
				t.Fatal(err)
			}
			s.warn()
			var got []string
			for _, w := range s.Warnings {
				got = append(got, w.Code+" "+w.Key)
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
