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

// ClientOptions configure a [Client]; all are required.
type ClientOptions struct {
	// ChallengeURL and VerifyURL are the API's two endpoints; https.
	ChallengeURL, VerifyURL string
	// HTTP makes the calls; it must bound their time.
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
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("gate: the API's endpoints must be https URLs")
		}
	}
	return &Client{o: o, peer: wire.Peer{HTTP: o.HTTP, Name: "the API's gate", Unavailable: "gate_unavailable"}}, nil
}

// Challenge asks for a challenge bound to b.
func (c *Client) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	var ch challenge.Challenge
	err := c.peer.Call(ctx, c.o.ChallengeURL, b, &ch)
	return ch, err
}

// Admitted is what the API gives for a chain that holds. The capability itself means something to the API alone.
type Admitted struct {
	Capability, CapabilityID string
}

// Admit has the API verify a chain. The binding must hold the nonce of the API's challenge: the answer is held against it.
func (c *Client) Admit(ctx context.Context, r AdmitRequest) (Admitted, error) {
	var a verifyAnswer
	if err := c.peer.Call(ctx, c.o.VerifyURL, verifyRequest(r), &a); err != nil {
		return Admitted{}, err
	}
	if a.Capability == "" || a.CapabilityID == "" || a.BindingHash != r.Binding.Hash() {
		return Admitted{}, evidence.Refuse("gate_answer", "the API gave no capability for this binding")
	}
	return Admitted{Capability: a.Capability, CapabilityID: a.CapabilityID}, nil
}
