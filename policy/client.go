package policy

import (
	"context"
	"net/http"

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
	if err := c.peer.Call(ctx, c.base+"/v1/decide", r, &d); err != nil {
		return Decision{}, err
	}
	if d.PolicyDecision == "" || d.Grant == "" {
		return Decision{},
			refusal.New("process_unavailable", "the control plane answered without a decision or without a grant")
	}
	return d, nil
}

// Accepts asks which key versions the control plane accepts under a manifest.
func (c *Client) Accepts(ctx context.Context, manifestHash string) (Accepted, error) {
	var a Accepted
	err := c.peer.Call(ctx, c.base+"/v1/accepts", AcceptsRequest{ManifestHash: manifestHash}, &a)
	return a, err
}

// Manifests returns hashes, the current manifest first.
func (c *Client) Manifests(ctx context.Context) ([]string, error) {
	var m Manifests
	if err := c.peer.Call(ctx, c.base+"/v1/manifests", struct{}{}, &m); err != nil {
		return nil, err
	}
	return m.Manifests, nil
}
