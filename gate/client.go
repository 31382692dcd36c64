package gate

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
)

// ClientOptions name the API's own gate.
type ClientOptions struct {
	// The API's https endpoints. Required.
	ChallengeURL, VerifyURL string
	// HTTP must bound the time of a call. Required. It follows no redirect: an envelope is for the configured endpoint.
	HTTP *http.Client
	// required
	Now func() time.Time
}

// Client asks the gate of an API. It is safe for concurrent use.
type Client struct {
	o    ClientOptions
	peer wire.Peer
}

// NewClient refuses endpoints that are not https.
func NewClient(o ClientOptions) (*Client, error) {
	if o.HTTP == nil || o.Now == nil {
		return nil, errors.New("gate: a client needs an HTTP client and a clock")
	}
	for _, raw := range []string{o.ChallengeURL, o.VerifyURL} {
		if u, err := url.Parse(raw); err != nil || u.Hostname() == "" || u.Scheme != "https" {
			return nil, errors.New("gate: the API's endpoints must be https URLs")
		}
	}
	direct := *o.HTTP
	direct.CheckRedirect = wire.Stay
	return &Client{o: o, peer: wire.Peer{HTTP: &direct, Name: "the API's gate", Unavailable: "gate_unavailable"}}, nil
}

// Challenge refuses a challenge with another binding than b.
func (c *Client) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	var ch challenge.Challenge
	if err := c.call(ctx, c.o.ChallengeURL, b, &ch); err != nil {
		return challenge.Challenge{}, err
	}
	if !wire.IsText(ch.Token, wire.MaxToken) || !wire.IsText(ch.ID, maxID) || ch.Binding == nil ||
		ch.Binding.CheckNonce() != nil || !ch.Binding.SameAction(b) {
		return challenge.Challenge{}, refusal.New("gate_unavailable", "the API gave no challenge for this binding")
	}
	return ch, nil
}

// CheckByAPI names, in a record, the API's own check of a chain.
const CheckByAPI = "chain verified by the API"

// Admit has the API verify and consume a chain. The binding must have the challenge's nonce. The key that it returns
// makes sure that the mediator never sends one capability twice.
func (c *Client) Admit(ctx context.Context, r AdmitRequest) (Admission, error) {
	var a verifyAnswer
	if err := c.call(ctx, c.o.VerifyURL, verifyRequest{Envelope: r.Envelope, Binding: r.Binding}, &a); err != nil {
		return Admission{}, err
	}
	hash := r.Binding.Hash()
	if !wire.IsText(a.Capability, wire.MaxToken) || !wire.IsText(a.CapabilityID, maxID) || a.BindingHash != hash {
		return Admission{}, refusal.New("gate_unavailable", "the API gave no capability for this binding")
	}
	kept := c.o.Now().Add(evidence.CapabilityKind().MaxLifetime)
	return Admission{
		Capability: a.Capability, CapabilityID: a.CapabilityID, BindingHash: hash, Expires: time.Unix(a.ExpiresAt, 0),
		Keys: []ledger.Key{{Kind: challenge.CapabilityKey, ID: a.CapabilityID, Expires: kept}},
		Checks: []ledger.Check{
			{Name: CheckByAPI, OK: true, Detail: "the API gave a capability for it, and answers for what it verified"}},
	}, nil
}

// Authorize verifies nothing: the API verifies the request proof when the call arrives.
func (c *Client) Authorize(context.Context, AuthorizeRequest) (Authorization, error) {
	return Authorization{}, nil
}

// maxID bounds the API's ids, which end up in headers, claims and the record.
const maxID = 256

// call keeps the API's code in a refusal if our table has it, and names the API as its source.
func (c *Client) call(ctx context.Context, url string, ask, answer any) error {
	err := c.peer.Call(ctx, url, ask, answer)
	var said *problem.Error
	if !errors.As(err, &said) {
		return err
	}
	detail := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, said.Error())
	if !problem.Known(said.Code()) {
		return refusal.New("gate_unavailable",
			"the API's gate refused with the code %.40q, which the mediator does not know",
			said.Code()).ForOperator("and said: %.500s", detail)
	}
	refused := refusal.New(said.Code(), "the API's gate refused").ForOperator("and said: %.500s", detail)
	return refusal.Later{Refusal: refused, Seconds: said.RetryAfter()}
}
