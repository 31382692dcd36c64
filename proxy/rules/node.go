package rules

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/node"
)

// checkForNode refuses a rule for the mediator's own name that is for no page of the node, lets an agent publish
// without evidence, or sets what the node ignores.
func checkForNode(r Rule, m match.Match) error {
	if m.Host != match.Own {
		return nil
	}
	way, ok := node.WayAt(m.Path)
	if !ok || m.Scheme != "http" || m.Port != 80 {
		return fmt.Errorf("a rule for http://%s must be for %s: everything else there needs no rule", match.Own,
			node.Paths())
	}
	if i := slices.IndexFunc(m.Methods, func(method string) bool { return !way.Takes(method) }); i >= 0 {
		return fmt.Errorf("the node takes no %s at %s", m.Methods[i], way.Path)
	}
	switch {
	case way.MCP && r.MCP() == nil:
		return fmt.Errorf("%s is an MCP server: name its messages with mcp", way.Path)
	case !way.MCP && r.Egress != nil:
		return fmt.Errorf("others can read what is written at %s: only an action may name it", way.Path)
	case !way.MCP && r.kind() != "":
		return fmt.Errorf("%s takes no %s", way.Path, r.kind())
	case r.Action != nil && r.Action.AllowQuery:
		return fmt.Errorf("the node takes no query there")
	case way.Publishes && r.Action.Content != ContentJSON:
		return fmt.Errorf("what is published at %s is JSON: leave content out", way.Path)
	case r.Action != nil:
		return nil
	}
	for _, tool := range r.MCP().Tools {
		if slices.Contains(way.Posts, tool) {
			return fmt.Errorf("others can read what %s writes: only an action may name it", tool)
		}
	}
	return nil
}
