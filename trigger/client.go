package trigger

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Client calls a trigger service. Refusals keep their codes. After process_unavailable, the request may have taken
// effect. It is safe for concurrent use.
type Client struct {
	base string
	peer wire.Peer
}

// NewClient makes a client for the service at base, such as http://mediator over a unix socket that c dials.
func NewClient(base string, c *http.Client) *Client {
	return &Client{base: base, peer: wire.Peer{HTTP: c, Name: "the trigger service",
		Unavailable: "process_unavailable"}}
}

// Ready returns nil if the service answers that it is ready.
func (c *Client) Ready(ctx context.Context) error { return c.peer.Ready(ctx, c.base) }

func call[A any](ctx context.Context, c *Client, path string, ask any) (answer A, err error) {
	err = c.peer.Call(ctx, c.base+path, ask, &answer)
	return answer, err
}

// Evidence is [Service.Evidence] over the socket.
func (c *Client) Evidence(ctx context.Context, eventID string, b evidence.Binding) (Evidence, error) {
	e, err := call[Evidence](ctx, c, "/v1/evidence", evidenceRequest{EventID: eventID, Binding: b})
	if err == nil && !(wire.IsText(e.OriginProof, wire.MaxToken) && wire.IsText(e.TriggerReceipt, wire.MaxToken)) {
		return Evidence{}, refusal.New("process_unavailable",
			"the trigger service answered without an origin proof or without a trigger receipt")
	}
	return e, err
}

func (c *Client) Unsent(ctx context.Context, eventID, runtime, action, bindingHash string) error {
	_, err := call[struct{}](ctx, c, "/v1/evidence/unsent",
		unsentRequest{EventID: eventID, Runtime: runtime, Action: action, BindingHash: bindingHash})
	return err
}

func (c *Client) Claim(ctx context.Context, claim Claim) (Event, error) {
	e, err := call[Event](ctx, c, "/v1/events/claim",
		claimRequest{EventID: claim.EventID, Runtime: claim.Runtime, WaitMillis: claim.Wait.Milliseconds()})
	if err == nil && (!isID(e.ID) || claim.EventID != "" && claim.EventID != e.ID) {
		return Event{}, refusal.New("process_unavailable",
			"the trigger service answered with another event, or with none")
	}
	return e, err
}

func (c *Client) Release(ctx context.Context, eventID, runtime string) (Event, error) {
	return call[Event](ctx, c, "/v1/events/release", finishRequest{EventID: eventID, Runtime: runtime})
}

func (c *Client) Done(ctx context.Context, eventID, runtime string) (Event, error) {
	return call[Event](ctx, c, "/v1/events/done", finishRequest{EventID: eventID, Runtime: runtime})
}

func (c *Client) Report(ctx context.Context, kind, method, source string, payload []byte) (string, error) {
	kept, err := call[Accepted](ctx, c, "/v1/events",
		reportRequest{Kind: kind, Method: method, Source: source, Payload: payload})
	return kept.EventID, err
}
