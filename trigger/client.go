package trigger

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/wire"
)

// Client asks a trigger service. It is safe for concurrent use.
type Client struct {
	base string
	peer wire.Peer
}

// NewClient makes a client for the service at base, such as http://mediator over a unix socket that c dials.
func NewClient(base string, c *http.Client) *Client {
	return &Client{base: base, peer: wire.Peer{HTTP: c, Name: "the trigger service", Unavailable: "trigger_unavailable"}}
}

// Evidence asks for the origin proof and the trigger receipt of an event for a binding. See [Service.Evidence].
func (c *Client) Evidence(ctx context.Context, eventID string, b evidence.Binding) (Evidence, error) {
	var e Evidence
	err := c.peer.Call(ctx, c.base+"/v1/evidence", evidenceRequest{EventID: eventID, Binding: b}, &e)
	return e, err
}

// Claim asks for an event to open a session with. See [Service.Claim].
func (c *Client) Claim(ctx context.Context, claim Claim) (Event, error) {
	var e Event
	err := c.peer.Call(ctx, c.base+"/v1/events/claim", claimRequest{EventID: claim.EventID, Runtime: claim.Runtime, WaitMillis: claim.Wait.Milliseconds()}, &e)
	return e, err
}
