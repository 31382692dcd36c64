package config

import (
	"cmp"

	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/graphql"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
)

// parseMatch parses a match. ofMessages are the methods of a rule about messages.
func parseMatch(key string, m Match, ofMessages []string, f *findings) match.Match {
	methods := m.Methods
	if m.MCP != nil && m.GraphQL != nil {
		f.Add(key, "is about MCP or GraphQL, not both")
	}
	if m.messages() != "" {
		if len(methods) > 0 {
			f.Add(key+".methods", "%s have their own HTTP methods: leave this out", m.messages())
		}
		methods = ofMessages
	}
	if m.URL == "" {
		return match.Match{}
	}
	out, err := match.Parse(m.URL, methods)
	if err != nil {
		f.Add(key, "%v", err)
	}
	return out
}

func (m Match) messages() string {
	switch {
	case m.MCP != nil:
		return "messages to an MCP server"
	case m.GraphQL != nil:
		return "GraphQL requests"
	}
	return ""
}

func parseGraphQL(key string, m *GraphQL, post bool, f *findings) *graphql.Rule {
	if m == nil || m.Type == "" {
		return nil
	}
	out := &graphql.Rule{Type: m.Type, Fields: m.Fields}
	if err := out.Check(post); err != nil {
		f.Add(key, "%v", err)
	}
	return out
}

func parseMCP(key string, m *MCP, post bool, f *findings) *mcp.Rule {
	if m == nil {
		return nil
	}
	if post && (m.Methods != nil || m.Elicitation || m.Sampling) {
		f.Add(key, "an action may name only tools: allow the rest in an egress rule with the same URL")
	}
	if !post && m.SameConnection {
		f.Add(key+".sameConnection", "is allowed only in an action: an egress rule does not need it")
	}
	out := &mcp.Rule{
		Tools: m.Tools, Methods: m.Methods, Elicitation: m.Elicitation, Sampling: m.Sampling, Pin: m.Pin,
		ListAll: m.List == "all", Post: post, SameConnection: m.SameConnection,
	}
	if err := out.Check(); err != nil {
		f.Add(key, "%v", err)
	}
	return out
}

// parse returns the models that a rule offers; nil if it offers none. [rules.New] checks whether the rule can.
func (g *Generate) parse(key string, f *findings) *generate.Rule {
	if g == nil || len(g.Models) == 0 {
		return nil
	}
	out := &generate.Rule{Models: g.Models, MaxTokens: cmp.Or(g.MaxTokens, 1024)}
	if err := out.Check(); err != nil {
		f.Add(key, "%v", err)
	}
	return out
}
