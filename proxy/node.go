package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/upstream"
)

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

// isForNode reports whether a call to the mediator's own name needs a rule and then goes to the node as if to an
// upstream.
func isForNode(c *call) bool {
	way, ok := node.WayAt(c.r.URL.EscapedPath())
	if c.target.Host != InternalHost || !ok || !way.Takes(c.r.Method) || c.r.URL.RawQuery != "" || c.r.URL.ForceQuery {
		return false
	}
	if way.MCP { // the node always answers with one JSON document
		c.r.Header.Set("Accept", "application/json, text/event-stream")
	}
	return true
}

func (c *call) goToNode() {
	c.via, c.conversation = toNode{c}, &publishing{plain: plain{c}}
}

type toNode struct{ *call }

func (n toNode) RoundTrip(out *http.Request) (*http.Response, error) {
	o := &n.p.o
	resp, err := o.Node.Send(n.session, out)
	if n.record.Flow == flowPost && o.Reputations != nil { // even without its answer
		o.Reputations.Forget()
	}
	if err != nil {
		return nil, cmp.Or(out.Context().Err(), err) // a client's leaving is not the node's fault
	}
	return upstream.CheckAnswer(out, resp)
}

// publishing is a post that publishes an agent's document at the node. The sidecar signs the document.
type publishing struct {
	plain
	kind      string // of document
	statement string // signed by the sidecar
}

func (m *publishing) content(b *body.Body) (err error) {
	m.kind, err = m.p.o.Node.Kind(m.r.URL.EscapedPath(), b.Text, b.Hash)
	return err
}

func (m *publishing) prove(ctx context.Context, b evidence.Binding) (err error) {
	m.statement, err = m.p.o.Node.State(ctx, m.session, m.kind, b.ContentHash, m.record.BindingHash)
	if err == nil {
		m.artifact("agentStatement", m.statement)
	}
	return err
}

func (m *publishing) sent(out *http.Request) (*http.Request, error) {
	out.Header.Set(interaction.StatementHeader, m.statement)
	return out, nil
}

// checkForNode refuses a rule for the mediator's own name that is for no page of the node, lets an agent publish
// without evidence, or sets what the node ignores.
func checkForNode(r rule, m match.Match) error {
	if m.Host != InternalHost {
		return nil
	}
	way, ok := node.WayAt(m.Path)
	if !ok || m.Scheme != "http" || m.Port != 80 {
		return fmt.Errorf("at http://%s a rule is for %s: everything else there needs none", InternalHost, node.Paths())
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
