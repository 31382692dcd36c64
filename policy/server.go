package policy

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/wire"
)

// NewServer answers the internal API, which sidecars use: POST /v1/decide. Whoever reaches it may have decisions signed, so it must
// be out of the agent's reach.
func NewServer(e *Engine) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/decide", wire.Handle(e.Decide))
	return mux
}

// Client asks a control plane. It is safe for concurrent use.
type Client struct {
	base string
	peer wire.Peer
}

// NewClient makes a client for the control plane at base, such as http://mediator over a unix socket that c dials.
func NewClient(base string, c *http.Client) *Client {
	return &Client{base: base, peer: wire.Peer{HTTP: c, Name: "the control plane", Unavailable: "control_unavailable"}}
}

// Decide asks for a decision and a grant. See [Engine.Decide].
func (c *Client) Decide(ctx context.Context, r Request) (Decision, error) {
	var d Decision
	err := c.peer.Call(ctx, c.base+"/v1/decide", r, &d)
	return d, err
}
