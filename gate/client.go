package gate

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/actionproof/mediator/challenge"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/wire"
)

// ClientOptions configure a [Client].
type ClientOptions struct {
	// ChallengeURL and VerifyURL are the API's two endpoints; https. Required.
	ChallengeURL, VerifyURL string
	// HTTP makes the calls; it must bound their time. The client follows no redirect, whatever HTTP does: an envelope is for the
	// endpoint that was configured. Required.
	HTTP *http.Client
}

// Client asks an API that takes part. It is safe for concurrent use.
type Client struct {
	o    ClientOptions
	peer wire.Peer
}

// NewClient makes a Client.
func NewClient(o ClientOptions) (*Client, error) {
	if o.HTTP == nil {
		return nil, errors.New("gate: a client needs an HTTP client")
	}
	for _, raw := range []string{o.ChallengeURL, o.VerifyURL} {
		if u, err := url.Parse(raw); err != nil || u.Hostname() == "" || u.Scheme != "https" {
			return nil, errors.New("gate: the API's endpoints must be https URLs")
		}
	}
	direct := *o.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{o: o, peer: wire.Peer{HTTP: &direct, Name: "the API's gate", Unavailable: "gate_unavailable"}}, nil
}

// Challenge asks for a challenge bound to b. One that is bound to anything else is refused: every artifact would be made for that.
func (c *Client) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	var ch challenge.Challenge
	if err := c.peer.Call(ctx, c.o.ChallengeURL, b, &ch); err != nil {
		return challenge.Challenge{}, err
	}
	if ch.Token == "" || ch.Binding == nil || ch.Binding.CheckNonce() != nil || !ch.Binding.SameAction(b) {
		return challenge.Challenge{}, evidence.Refuse("gate_answer", "the API gave no challenge for this binding")
	}
	return ch, nil
}

// Admitted is what the API gives for a chain that holds. The capability itself means something to the API alone.
type Admitted struct {
	Capability, CapabilityID string
}

// Admit has the API verify a chain. The binding must hold the nonce of the API's challenge: the answer is held against it.
func (c *Client) Admit(ctx context.Context, r AdmitRequest) (Admitted, error) {
	var a verifyAnswer
	if err := c.peer.Call(ctx, c.o.VerifyURL, verifyRequest{Envelope: r.Envelope, Binding: r.Binding}, &a); err != nil {
		return Admitted{}, err
	}
	if a.Capability == "" || a.CapabilityID == "" || a.BindingHash != r.Binding.Hash() {
		return Admitted{}, evidence.Refuse("gate_answer", "the API gave no capability for this binding")
	}
	return Admitted{Capability: a.Capability, CapabilityID: a.CapabilityID}, nil
}
