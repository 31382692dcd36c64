package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/upstream"
)

// isForNode reports whether a call to the mediator's own name is for the node and needs a rule. Then it takes the way of any other call, and the
// node is its upstream.
func isForNode(c *call) bool {
	way, ok := node.WayAt(c.r.URL.EscapedPath())
	if c.target.Host != InternalHost || !ok || !way.Takes(c.r.Method) || c.r.URL.RawQuery != "" || c.r.URL.ForceQuery {
		return false
	}
	if way.MCP { // the node answers with one JSON document on the same connection, whatever the client says that it takes
		c.r.Header.Set("Accept", "application/json, text/event-stream")
	}
	return true
}

// roundTrip sends a request to its upstream, which is the node for the mediator's own name.
func (p *Pipeline) roundTrip(c *call, out *http.Request) (*http.Response, error) {
	if c.target.Host != InternalHost {
		return p.o.Transport.RoundTrip(out)
	}
	resp, err := p.o.Node.Send(c.session, out)
	if c.record.Flow == flowPost && p.o.Reputations != nil { // also where the answer was lost
		p.o.Reputations.Forget(c.record.Subject)
	}
	if err != nil {
		return nil, cmp.Or(out.Context().Err(), err) // the node is not to blame for a client that has gone
	}
	return upstream.CheckAnswer(out, resp)
}

// checkForNode refuses a rule for the mediator's own name that leads nowhere, that lets out without evidence what others can read, or that says
// what the node would not heed.
func checkForNode(r rule, m match.Match) error {
	if m.Host != InternalHost {
		return nil
	}
	way, ok := node.WayAt(m.Path)
	if !ok || m.Scheme != "http" || m.Port != 80 {
		return fmt.Errorf("at http://%s a rule is for %s: what else is there needs none", InternalHost, node.Paths())
	}
	if i := slices.IndexFunc(m.Methods, func(method string) bool { return !way.Takes(method) }); i >= 0 {
		return fmt.Errorf("the node takes no %s at %s", m.Methods[i], way.Path)
	}
	switch {
	case way.MCP && r.mcp() == nil:
		return fmt.Errorf("%s is an MCP server: name its messages with mcp", way.Path)
	case !way.MCP && r.egress != nil:
		return fmt.Errorf("others can read what is written at %s: only an action may name it", way.Path)
	case !way.MCP && r.kind() != "":
		return fmt.Errorf("%s takes no %s", way.Path, r.kind())
	case r.action != nil && r.action.AllowQuery:
		return fmt.Errorf("the node takes no query there")
	case way.Publishes && r.action.Content != ContentJSON:
		return fmt.Errorf("what is published at %s is JSON: leave content out", way.Path)
	case r.action != nil:
		return nil
	}
	for _, tool := range r.mcp().Tools {
		if slices.Contains(way.Posts, tool) {
			return fmt.Errorf("others can read what %s writes: only an action may name it", tool)
		}
	}
	return nil
}
