package proxy

import (
	"cmp"
	"context"
	"net/http"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

func (c *call) askNode(target string) error {
	var asked []byte
	if c.r.Method == http.MethodPost && (c.r.ContentLength != 0 || node.NeedsBody(target)) {
		held, err := c.readBody(node.MaxRequest, rules.ContentJSON)
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

// toNode sends a call to the node instead of to an upstream.
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
