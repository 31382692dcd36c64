package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/strict"
)

// TestObserve reads rules about calls to models, and refuses those that mean nothing.
func TestObserve(t *testing.T) {
	post := Match{URL: "https://api.example.com/v1/responses", Methods: []string{"POST"}}
	for name, tt := range map[string]struct {
		rule Egress
		want string // in what is found
	}{
		"in order":            {Egress{Match: post, Observe: "openai-responses", HostedTools: []string{"web_search", "remote_content"}}, "<nil>"},
		"another API":         {Egress{Match: post, Observe: "openai"}, `egress[0].observe: "openai" is none of the APIs that are read`},
		"tools alone":         {Egress{Match: post, HostedTools: []string{"web_search"}}, "egress[0].hostedTools: has no meaning without observe"},
		"a tool of the agent": {Egress{Match: post, Observe: "openai-chat", HostedTools: []string{"function"}}, `"function" is a tool that the agent runs`},
		"a wildcard":          {Egress{Match: post, Observe: "openai-chat", HostedTools: []string{"*"}}, "neither the type of a tool"},
		"a GET":               {Egress{Match: Match{URL: post.URL, Methods: []string{"GET", "POST"}}, Observe: "openai-chat"}, "a call to a model is a POST"},
		"models offered":      {Egress{Match: post, Observe: "openai-chat", Generate: &Generate{Models: []string{"m"}}}, "<nil>"},
		"no models":           {Egress{Match: post, Observe: "openai-chat", Generate: &Generate{}}, "egress[0].generate: it lists 0 models"},
		"no tokens":           {Egress{Match: post, Observe: "openai-chat", Generate: &Generate{Models: []string{"m"}, MaxTokens: -1}}, "egress[0].generate: maxTokens is not positive"},
		"an MCP server":       {Egress{Match: Match{URL: post.URL, MCP: &MCP{}}, Observe: "openai-chat"}, "and not about both"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.rule.Name = "model"
			s, f := &Sidecar{Egress: []Egress{tt.rule}}, &findings{File: new(strict.File)}
			s.addEgress("egress[0]", tt.rule, f)
			if got := fmt.Sprint(f.err()); !strings.Contains(got, tt.want) {
				t.Errorf("found %s, want %s", got, tt.want)
			}
			if name == "in order" && fmt.Sprint(*s.EgressRules[0].Observe) != "{openai-responses [web_search remote_content]}" {
				t.Errorf("the rule is %+v", s.EgressRules[0].Observe)
			}
			if name == "models offered" && s.EgressRules[0].Generate.MaxTokens != 1024 {
				t.Errorf("the rule offers %+v", s.EgressRules[0].Generate)
			}
		})
	}
}
