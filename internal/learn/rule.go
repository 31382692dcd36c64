package learn

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/terminal"
)

// Rule is a rule in the form of the sidecar's configuration, with what records can show.
type Rule struct {
	Post  bool   `yaml:"-" json:"post"` // an action, else an egress rule
	Name  string `yaml:"name" json:"name"`
	Match Match  `yaml:"match,flow" json:"match"`
	// Subject is the agent that posts. A person names it: until then, an action is no correct rule.
	Subject string `yaml:"subject,omitempty" json:"subject,omitempty"`
	Action  string `yaml:"action,omitempty" json:"action,omitempty"`
	Content string `yaml:"content,omitempty" json:"content,omitempty"`
	Query   bool   `yaml:"query,omitempty" json:"query,omitempty"`
	// WebSocket allows WebSockets too.
	WebSocket bool   `yaml:"websocket,omitempty" json:"websocket,omitempty"`
	Observe   string `yaml:"observe,omitempty" json:"observe,omitempty"`
	// Credential names the file of the secret for the calls; a person names it too.
	Credential *Credential `yaml:"credential,omitempty,flow" json:"credential,omitempty"`
}

// Match says which calls a rule is for.
type Match struct {
	URL     string   `yaml:"url" json:"url"`
	Methods []string `yaml:"methods,omitempty,flow" json:"methods,omitempty"`
	MCP     *MCP     `yaml:"mcp,omitempty,flow" json:"mcp,omitempty"`
	GraphQL *GraphQL `yaml:"graphql,omitempty,flow" json:"graphql,omitempty"`
}

// MCP names tools and methods of an MCP server. Nil methods are the usual ones.
type MCP struct {
	Tools   []string          `yaml:"tools,omitempty,flow" json:"tools,omitempty"`
	Methods *[]string         `yaml:"methods,omitempty,flow" json:"methods,omitempty"`
	Pin     map[string]string `yaml:"pin,omitempty,flow" json:"pin,omitempty"`
}

// GraphQL names operations. Nil fields are all.
type GraphQL struct {
	Type   string   `yaml:"type" json:"type"`
	Fields []string `yaml:"fields,omitempty,flow" json:"fields,omitempty"`
}

// Credential is a secret in a file, sent as a bearer token.
type Credential struct {
	Prefix string `yaml:"prefix" json:"prefix"`
	File   string `yaml:"file" json:"file"`
}

const fillIn = `# the agent that posts; add credential: {prefix: "Bearer ", file: FILE} if the API needs one`

// YAML returns rules in the form of the sidecar's configuration. It marks what a person must fill in. about returns a
// comment about each rule, or nothing.
func YAML(rules []Rule, about func(i int) string) ([]byte, error) {
	lists := map[bool]*yaml.Node{}
	for i, r := range rules {
		var n yaml.Node
		if err := n.Encode(r); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		n.Content[3].Content[1].Style = yaml.DoubleQuotedStyle // the URL of match, as in the examples
		if r.Post && r.Subject == "" {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "subject"},
				&yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, LineComment: fillIn})
		}
		if text := about(i); text != "" {
			n.HeadComment = "# " + strings.ReplaceAll(terminal.Unbroken(terminal.Plain(text)), "\n", " ")
		}
		if lists[r.Post] == nil {
			lists[r.Post] = &yaml.Node{Kind: yaml.SequenceNode}
		}
		lists[r.Post].Content = append(lists[r.Post].Content, &n)
	}
	doc := &yaml.Node{Kind: yaml.MappingNode}
	for _, list := range []struct {
		key  string
		post bool
	}{{"actions", true}, {"egress", false}} {
		if items := lists[list.post]; items != nil {
			doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: list.key}, items)
		}
	}
	if len(doc.Content) == 0 {
		return []byte("{}\n"), nil
	}
	text, err := yaml.Dump(doc, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	return bytes.TrimLeft(text, "\n"), err
}
