package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/proxy"
)

// TestMCPRules reads rules about the messages to one MCP server, and refuses those that leave open what they are for, or a way around.
func TestMCPRules(t *testing.T) {
	const url = "https://api.example.com/mcp/"
	issue := Action{Name: "issue", Subject: "s", Action: "a", Match: Match{URL: url, MCP: &MCP{Tools: []string{"create_issue"}}}}
	reads := Egress{Name: "reads", Match: Match{URL: url, MCP: &MCP{Tools: []string{"get_issue"}, Elicitation: true, Pin: map[string]string{"get_issue": strings.Repeat("a", 64)}}}}
	for name, tt := range map[string]struct {
		change func(*Action, *Egress)
		want   string // in what is found
	}{
		"in order":                 {func(*Action, *Egress) {}, "<nil>"},
		"methods beside mcp":       {func(a *Action, _ *Egress) { a.Match.Methods = []string{"POST"} }, "messages to an MCP server have their own HTTP methods"},
		"methods of a read":        {func(_ *Action, e *Egress) { e.Match.Methods = []string{"GET"} }, "messages to an MCP server have their own HTTP methods"},
		"an action without tools":  {func(a *Action, _ *Egress) { a.Match.MCP = &MCP{} }, "an action names its tools"},
		"an action with methods":   {func(a *Action, _ *Egress) { a.Match.MCP = &MCP{Tools: []string{"a"}, Methods: []string{"ping"}} }, "an action names tools alone"},
		"an action with a human":   {func(a *Action, _ *Egress) { a.Match.MCP = &MCP{Tools: []string{"a"}, Elicitation: true} }, "an action names tools alone"},
		"an action with a model":   {func(a *Action, _ *Egress) { a.Match.MCP = &MCP{Tools: []string{"a"}, Sampling: true} }, "an action names tools alone"},
		"an action's connection":   {func(a *Action, _ *Egress) { a.Match.MCP = &MCP{Tools: []string{"create_issue"}, SameConnection: true} }, "<nil>"},
		"a read's connection":      {func(_ *Action, e *Egress) { e.Match.MCP = &MCP{Tools: []string{"get_issue"}, SameConnection: true} }, "is for an action"},
		"an action of other bytes": {func(a *Action, _ *Egress) { a.Content = "raw" }, "messages to an MCP server are JSON"},
		"a tool in both":           {func(_ *Action, e *Egress) { e.Match.MCP = &MCP{Tools: []string{"create_issue"}} }, `name the tools "create_issue" and "create_issue"`},
		"a bad pin":                {func(_ *Action, e *Egress) { e.Match.MCP.Pin = map[string]string{"get_issue": "x"} }, "not a lowercase hex SHA-256"},
		"a plain rule":             {func(_ *Action, e *Egress) { e.Match = Match{URL: url, Methods: []string{"GET", "POST"}} }, "also matches spellings of an action's path"},
		"a plain rule over all": {func(_ *Action, e *Egress) {
			e.Match = Match{URL: "https://api.example.com/**", Methods: []string{"POST"}}
		}, "also matches spellings of an action's path"},
		"a plain rule for reads": {func(_ *Action, e *Egress) {
			e.Match = Match{URL: "https://api.example.com/**", Methods: []string{"GET"}}
		}, "<nil>"},
		"any path": {func(_ *Action, e *Egress) { e.Match.URL = "https://api.example.com/**" }, "a rule about messages names its host and its path"},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := issue, reads
			match := *e.Match.MCP
			e.Match.MCP = &match
			tt.change(&a, &e)
			s, f := &Sidecar{Actions: []Action{a}, Egress: []Egress{e}}, &findings{File: new(strict.File)}
			s.addAction("actions[0]", a, f)
			s.addEgress("egress[0]", e, f)
			if f.Correct() {
				if _, err := proxy.NewRules(s.ActionRules, s.EgressRules); err != nil {
					s.addRuleError(err, f)
				}
			}
			if got := fmt.Sprint(f.err()); !strings.Contains(got, tt.want) {
				t.Errorf("found %s, want %s", got, tt.want)
			}
			if name != "in order" {
				return
			}
			if r := s.ActionRules[0]; !r.MCP.Post || !slices.Equal(r.Match.Methods, []string{"POST"}) {
				t.Errorf("the action is %+v", r)
			}
			if r := s.EgressRules[0]; r.MCP.Post || !r.MCP.Elicitation || r.MCP.Methods != nil || !slices.Equal(r.Match.Methods, []string{"GET", "POST", "DELETE"}) {
				t.Errorf("the egress rule is %+v", r)
			}
		})
	}
}
