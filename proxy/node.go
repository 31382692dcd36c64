package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/upstream"
)

// askNode answers a call with what the node says.
func (c *call) askNode(target string) error {
	var asked []byte
	if c.r.Method == http.MethodPost && (c.r.ContentLength != 0 || node.NeedsBody(target)) {
		held, err := c.readBody(node.MaxRequest, ContentJSON)
		if err != nil {
			c.closeAfter()
			return err
		}
		defer held.Close()
		asked = held.Text
	}
	answer, err := c.p.o.Node.Ask(c.r.Context(), c.session, c.r.Method, target, asked)
	if err != nil {
		return err
	}
	h := c.page("application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, err = c.w.Write(answer)
	return err
}

// isForNode reports whether a call to the mediator's own name needs a rule, and then goes to the node as any other call
// goes to its upstream.
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
func (c *call) roundTrip(out *http.Request) (*http.Response, error) {
	o := &c.p.o
	if c.target.Host != InternalHost {
		return o.Transport.RoundTrip(out)
	}
	resp, err := o.Node.Send(c.session, out)
	if c.record.Flow == flowPost && o.Reputations != nil { // also where the answer was lost
		o.Reputations.Forget(c.record.Subject)
	}
	if err != nil {
		return nil, cmp.Or(out.Context().Err(), err) // the node is not to blame for a client that has gone
	}
	return upstream.CheckAnswer(out, resp)
}

// readDocument is the part of step 3 for a post that publishes a document at the node: its form, and whose it is.
func (t *posting) readDocument() (err error) {
	path := t.r.URL.EscapedPath()
	if t.target.Host == InternalHost && node.Publishes(path) {
		t.publishes, err = t.p.o.Node.Kind(path, t.content.Text, t.content.Hash)
	}
	return err
}

// state is the part of step 9 for such a post: the sidecar signs the document for its agent.
func (t *posting) state(ctx context.Context) (err error) {
	if t.publishes == "" {
		return nil
	}
	t.statement, err = t.p.o.Node.State(ctx, t.session, t.publishes, t.binding.ContentHash, t.record.BindingHash)
	if err == nil {
		t.artifact("agentStatement", t.statement)
	}
	return err
}

// checkForNode refuses a rule for the mediator's own name that leads nowhere, lets out without evidence what others can
// read, or says what the node would not heed.
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
	case !way.MCP && r.kind() != nil:
		return fmt.Errorf("%s takes no %s", way.Path, r.kind().name)
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
