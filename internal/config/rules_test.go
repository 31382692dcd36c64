package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
)

func readRules(a Action, e Egress) (*Sidecar, string) {
	s, f := &Sidecar{Actions: []Action{a}, Egress: []Egress{e}}, &findings{File: new(strict.File)}
	f.Check("actions", s.Actions)
	f.Check("egress", s.Egress)
	s.addAction("actions[0]", s.Actions[0], f)
	s.addEgress("egress[0]", s.Egress[0], f)
	if f.Correct() {
		if _, err := rules.New(s.ActionRules, s.EgressRules, nil); err != nil {
			s.addRuleError(err, f)
		}
	}
	s.warn()
	return s, fmt.Sprint(f.Err())
}

const (
	mcpURL   = "https://api.example.com/mcp/"
	modelURL = "https://api.example.com/v1/responses"
)

func correctRules() (Action, Egress) {
	a := Action{Rule: Rule{Name: "issue", Match: Match{URL: mcpURL, MCP: &MCP{Tools: []string{"create_issue"}}}},
		Subject: "s", Action: "a"}
	e := Egress{Rule: Rule{Name: "reads", Match: Match{URL: mcpURL, MCP: &MCP{
		Tools: []string{"get_issue"}, Elicitation: true, Pin: map[string]string{"get_issue": strings.Repeat("a", 64)},
	}}}}
	return a, e
}

func TestRules(t *testing.T) {
	actionOf := func(m MCP) func(*Action, *Egress) { return func(a *Action, _ *Egress) { a.Match.MCP = &m } }
	readOf := func(m MCP) func(*Action, *Egress) { return func(_ *Action, e *Egress) { e.Match.MCP = &m } }
	plain := func(url string, methods ...string) func(*Action, *Egress) {
		return func(_ *Action, e *Egress) { e.Match = Match{URL: url, Methods: methods} }
	}
	model := func(e Egress) func(*Action, *Egress) {
		return func(_ *Action, to *Egress) {
			if e.Match.URL == "" {
				e.Match = Match{URL: modelURL, Methods: []string{"POST"}}
			}
			*to = e
			to.Name = "model"
		}
	}
	for name, tt := range map[string]struct {
		change func(*Action, *Egress)
		want   string // in the findings
	}{
		"in order": {func(*Action, *Egress) {}, "<nil>"},
		"methods beside mcp": {func(a *Action, _ *Egress) {
			a.Match.Methods = []string{"POST"}
		}, "messages to an MCP server have their own HTTP methods"},
		"methods of a read": {func(_ *Action, e *Egress) {
			e.Match.Methods = []string{"GET"}
		}, "messages to an MCP server have their own HTTP methods"},
		"an action without tools": {actionOf(MCP{}), "an action must name its tools"},
		"an action with methods": {actionOf(MCP{Tools: []string{"a"}, Methods: []string{"ping"}}),
			"an action may name only tools"},
		"an action with a human": {actionOf(MCP{Tools: []string{"a"}, Elicitation: true}),
			"an action may name only tools"},
		"an action with a model": {actionOf(MCP{Tools: []string{"a"}, Sampling: true}),
			"an action may name only tools"},
		"an action's connection": {actionOf(MCP{Tools: []string{"create_issue"}, SameConnection: true}), "<nil>"},
		"a read's connection": {readOf(MCP{Tools: []string{"get_issue"}, SameConnection: true}),
			"is allowed only in an action"},
		"an action of other bytes": {func(a *Action, _ *Egress) { a.Content = "raw" },
			"messages to an MCP server are JSON"},
		"a tool in both": {readOf(MCP{Tools: []string{"create_issue"}}),
			`name the tools "create_issue" and "create_issue"`},
		"a bad pin": {readOf(MCP{Tools: []string{"get_issue"}, Pin: map[string]string{"get_issue": "x"}}),
			"not a lowercase hex SHA-256"},
		"a plain rule":         {plain(mcpURL, "POST"), "also matches spellings of an action's path"},
		"a plain rule for GET": {plain(mcpURL, "GET"), "another rule has the same path pattern"},
		"a plain rule over all": {plain("https://api.example.com/**", "POST"),
			"also matches spellings of an action's path"},
		"a plain rule for reads": {plain("https://api.example.com/**", "GET"), "<nil>"},
		"any path": {func(_ *Action, e *Egress) {
			e.Match.URL = "https://api.example.com/**"
		}, "a rule about messages must name its host and its path"},

		"a model": {
			model(Egress{Observe: "openai-responses", HostedTools: []string{"web_search", "remote_content"}}), "<nil>"},
		"another API": {model(Egress{Observe: "openai"}), `egress[0].observe: "openai" is not a supported API`},
		"tools alone": {model(Egress{HostedTools: []string{"web_search"}}),
			"egress[0].hostedTools: has no meaning without observe"},
		"unknown members": {model(Egress{Observe: "gemini", UnknownMembers: "allow"}), "<nil>"},
		"unknown members, misspelt": {model(Egress{Observe: "gemini", UnknownMembers: "yes"}),
			`egress[0].unknownMembers: "yes" is neither refuse nor allow`},
		"unknown members alone": {model(Egress{UnknownMembers: "allow"}),
			"egress[0].unknownMembers: has no meaning without observe"},
		"a tool of the agent": {model(Egress{Observe: "openai-chat", HostedTools: []string{"function"}}),
			`"function" is a tool that the agent runs`},
		"a wildcard": {model(Egress{Observe: "openai-chat", HostedTools: []string{"*"}}),
			"neither the type of a tool"},
		"a GET": {model(Egress{Rule: Rule{Match: Match{URL: modelURL, Methods: []string{"GET", "POST"}}},
			Observe: "openai-chat"}),
			"needs POST as the only method"},
		"models offered": {model(Egress{Observe: "openai-chat", Generate: &Generate{Models: []string{"m"}}}), "<nil>"},
		"no models": {model(Egress{Observe: "openai-chat", Generate: &Generate{}}),
			"egress[0].generate.models: is required"},
		"no tokens": {model(Egress{Observe: "openai-chat", Generate: &Generate{Models: []string{"m"}, MaxTokens: -1}}),
			"egress[0].generate: maxTokens is not positive"},
		"a model at an MCP server": {model(Egress{Rule: Rule{Match: Match{URL: modelURL, MCP: &MCP{}}},
			Observe: "openai-chat"}),
			"cannot be set with match.mcp"},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := correctRules()
			tt.change(&a, &e)
			s, got := readRules(a, e)
			if !strings.Contains(got, tt.want) {
				t.Errorf("found %s, want %s", got, tt.want)
			}
			switch name {
			case "in order":
				if r := s.ActionRules[0]; !r.MCP.Post || !slices.Equal(r.Match.Methods, []string{"POST"}) {
					t.Errorf("the action is %+v", r)
				}
				r := s.EgressRules[0]
				if r.MCP.Post || !r.MCP.Elicitation || r.MCP.Methods != nil ||
					!slices.Equal(r.Match.Methods, []string{"GET", "POST", "DELETE"}) {
					t.Errorf("the egress rule is %+v", r)
				}
			case "a model":
				if got := fmt.Sprint(*s.EgressRules[0].Observe); got != "{openai-responses [web_search "+
					"remote_content] false}" {
					t.Errorf("the rule is %s", got)
				}
			case "models offered":
				if r := s.EgressRules[0].Generate; r.MaxTokens != 1024 {
					t.Errorf("the rule offers %+v", r)
				}
			}
		})
	}
}

func TestActionHeaders(t *testing.T) {
	for name, tt := range map[string]struct{ headers, want []string }{
		"left out": {nil, nil}, "empty": {[]string{}, []string{}},
		"in any spelling": {[]string{"x-github-api-version"}, []string{"X-Github-Api-Version"}},
	} {
		a, e := correctRules()
		a.Headers = tt.headers
		if s, got := readRules(a, e); got != "<nil>" || !reflect.DeepEqual(s.ActionRules[0].Headers, tt.want) {
			t.Errorf("%s: got %#v, %s", name, s.ActionRules[0].Headers, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	const url = "https://api.example.com/"
	api := &API{Challenge: url + "challenge", Verify: url + "verify"}
	plain := Match{URL: url + "posts", Methods: []string{"POST"}}
	tools := Match{URL: url + "mcp", MCP: &MCP{Tools: []string{"create_issue"}}}
	mutation := Match{URL: url + "graphql", GraphQL: &GraphQL{Type: "mutation", Fields: []string{"addComment"}}}
	for name, tt := range map[string]struct {
		match     Match
		gate      string
		websocket string // the URL of an egress rule for WebSockets
		want      string
	}{
		"nothing":     {plain, "", "", ""},
		"a WebSocket": {plain, "", url + "ws", "websocket_beside_action egress[0].websocket"},
		"a WebSocket of many": {plain, "", "https://*.example.com/ws",
			"websocket_beside_action egress[0].websocket"},
		"a WebSocket of others":             {plain, "", "https://other.example.com/ws", ""},
		"an API's gate":                     {plain, "api", "", ""},
		"an API's gate and tools":           {tools, "api", "", "api_gate_resource actions[0].gate"},
		"an API's gate and mutations":       {mutation, "api", "", "api_gate_resource actions[0].gate"},
		"tools and the mediator's own gate": {tools, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := Action{Rule: Rule{Name: "a", Match: tt.match}, Subject: "s", Action: "a", Gate: tt.gate}
			if tt.gate == "api" {
				a.API = api
			}
			e := Egress{Rule: Rule{Name: "e", Match: Match{URL: url + "ws", Methods: []string{"GET"}}}}
			if tt.websocket != "" {
				e.WebSocket, e.Match.URL = true, tt.websocket
			}
			s, findings := readRules(a, e)
			if findings != "<nil>" {
				t.Fatal(findings)
			}
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

func TestTags(t *testing.T) {
	known := map[string]bool{"yaml": true, "json": true, "need": true, "one": true, "from": true, "to": true,
		"is": true, "choice": true, "unique": true, "least": true, "of": true, "reload": true}
	kinds := []string{"", "path", "secret", "public", "library", "folder", "socket", "address", "listen", "peer",
		"server"}
	seen := make(map[reflect.Type]bool)
	var walk func(reflect.Type)
	walk = func(at reflect.Type) {
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct || seen[at] || !strings.Contains(at.PkgPath(), "internal/config") {
			return
		}
		seen[at] = true
		for i := range at.NumField() {
			f := at.Field(i)
			for pair := range strings.FieldsSeq(string(f.Tag)) {
				if name, _, isTag := strings.Cut(pair, ":"); isTag && !known[name] {
					t.Errorf("%s.%s has the tag %s", at.Name(), f.Name, name)
				}
			}
			if to := f.Tag.Get("to"); to != "" && fields.Bound(to) == 0 || f.Tag.Get("from") != "" &&
				fields.Bound(f.Tag.Get("from")) == 0 {
				t.Errorf("%s.%s has a bound that cannot be read", at.Name(), f.Name)
			}
			if !slices.Contains(kinds, f.Tag.Get("is")) {
				t.Errorf("%s.%s is %s", at.Name(), f.Name, f.Tag.Get("is"))
			}
			if f.Tag.Get("one") != "" && f.Type.Kind() != reflect.String {
				t.Errorf("%s.%s is no text, and has choices", at.Name(), f.Name)
			}
			walk(f.Type)
		}
	}
	for _, kind := range fileKinds {
		walk(kind.keys)
	}
}

func TestBoundsOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		of   reflect.Type
		most int
	}{
		"Arbiters": {reflect.TypeFor[Disputes](), dispute.MaxArbiters},
		"Appeal":   {reflect.TypeFor[Disputes](), dispute.MaxArbiters},
		"Subject":  {reflect.TypeFor[Receipts](), interaction.MaxAgent},
	} {
		f, _ := tt.of.FieldByName(name)
		check.WantEqual(t, f.Tag.Get("to"), strconv.Itoa(tt.most))
	}
}
