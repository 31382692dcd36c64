package proxy

import (
	"context"

	"github.com/actionproof/mediator/proxy/node"
)

// readDocument is the part of step 3 for a post that publishes a document at the node: its form, and whose it is.
func (p *Pipeline) readDocument(t *posting) (err error) {
	path := t.r.URL.EscapedPath()
	if t.target.Host == InternalHost && node.Publishes(path) {
		t.publishes, err = p.o.Node.Kind(path, t.content.Text, t.content.Hash)
	}
	return err
}

// state is the part of step 9 for such a post: the sidecar signs the document for its agent, which the policy allows by now.
func (p *Pipeline) state(ctx context.Context, t *posting) (err error) {
	if t.publishes == "" {
		return nil
	}
	if t.statement, err = p.o.Node.State(ctx, t.session, t.publishes, t.binding.ContentHash, t.record.BindingHash); err == nil {
		t.artifact("agentStatement", t.statement)
	}
	return err
}
