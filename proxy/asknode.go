package proxy

import (
	"net/http"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/node"
)

// askNode answers a call with what the node says.
func (p *Pipeline) askNode(c *call, route intercept.Route, target string) error {
	if err := p.findSession(c, route); err != nil {
		return err
	}
	var asked []byte
	if c.r.Method == http.MethodPost && (c.r.ContentLength != 0 || node.NeedsBody(target)) {
		held, err := p.readBody(c, node.MaxRequest, ContentJSON)
		if err != nil {
			c.closeAfter()
			return err
		}
		defer held.Close()
		asked = held.Text
	}
	answer, err := p.o.Node.Ask(c.r.Context(), c.session, c.r.Method, target, asked)
	if err != nil {
		return err
	}
	c.answered, c.record.State, c.record.Status = true, ledger.StateForwarded, http.StatusOK
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, err = c.w.Write(answer)
	return err
}
