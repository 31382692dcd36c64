package policy

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Client calls a control plane. It is safe for concurrent use.
type Client struct {
	base string
	peer wire.Peer
}

// NewClient takes the control plane's base URL; c dials its socket.
func NewClient(base string, c *http.Client) *Client {
	return &Client{base: base, peer: wire.Peer{HTTP: c, Name: "the control plane", Unavailable: "process_unavailable"}}
}

// Ready returns nil if the control plane answers that it is ready.
func (c *Client) Ready(ctx context.Context) error { return c.peer.Ready(ctx, c.base) }

// Decide asks for a decision and a grant. Refusals keep their codes. Without a proper answer the code is
// process_unavailable.
func (c *Client) Decide(ctx context.Context, r Request) (Decision, error) {
	var d Decision
	if err := c.call(ctx, "/v1/decide", r, &d); err != nil {
		return Decision{}, err
	}
	if !wire.IsText(d.PolicyDecision, wire.MaxToken) || !wire.IsText(d.Grant, wire.MaxToken) {
		return Decision{},
			refusal.New("process_unavailable", "the control plane answered without a decision or without a grant")
	}
	return d, nil
}

// Accepts asks which key versions the control plane accepts under a manifest.
func (c *Client) Accepts(ctx context.Context, manifestHash string) (Accepted, error) {
	var a Accepted
	err := c.call(ctx, "/v1/accepts", AcceptsRequest{ManifestHash: manifestHash}, &a)
	return a, err
}

// again says how often a question is repeated after an error. A replica can get a changed manifest later than the
// others, and one that ends breaks a connection.
var again = map[string]int{"deployment_mismatch": 10, "process_unavailable": 1}

const replicaPause = 100 * time.Millisecond

// call asks again over new connections. The control plane keeps nothing of a question.
func (c *Client) call(ctx context.Context, path string, ask, answer any) error {
	for n := 0; ; n++ {
		err := c.peer.Call(ctx, c.base+path, ask, answer)
		if n >= again[refusal.CodeOf(err)] {
			return err
		}
		c.peer.HTTP.CloseIdleConnections()
		select {
		case <-ctx.Done():
			return err
		case <-time.After(replicaPause):
		}
	}
}

// Manifests returns hashes, the current manifest first.
func (c *Client) Manifests(ctx context.Context) ([]string, error) {
	var m Manifests
	if err := c.peer.Call(ctx, c.base+"/v1/manifests", struct{}{}, &m); err != nil {
		return nil, err
	}
	return m.Manifests, nil
}
