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

// ClientOptions configure a [Client].
type ClientOptions struct {
	// ChallengeURL and VerifyURL are the API's two endpoints; https. Required.
	ChallengeURL, VerifyURL string
	// HTTP makes the calls; it must bound their time. The client follows no redirect, whatever HTTP does: an envelope is for the
	// endpoint that was configured. Required.
	HTTP *http.Client
	// Now is the clock; required.
	Now func() time.Time
}

// Client asks an API that takes part. It is safe for concurrent use.
type Client struct {
	o    ClientOptions
	peer wire.Peer
}

// NewClient makes a Client.
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

// Challenge asks for a challenge bound to b. One that is bound to anything else is refused: every artifact would be made for that.
func (c *Client) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	var ch challenge.Challenge
	if err := c.call(ctx, c.o.ChallengeURL, b, &ch); err != nil {
		return challenge.Challenge{}, err
	}
	if !isToken(ch.Token, maxToken) || !isToken(ch.ID, maxID) || ch.Binding == nil || ch.Binding.CheckNonce() != nil || !ch.Binding.SameAction(b) {
		return challenge.Challenge{}, refusal.New("gate_unavailable", "the API gave no challenge for this binding")
	}
	return ch, nil
}

// CheckByAPI names the check of a chain that an API judged.
const CheckByAPI = "chain verified by the API"

// Admit has the API verify a chain. The binding must hold the nonce of the API's challenge: the answer is held against it. The API has
// consumed the chain; the key of the capability is left, so that the mediator itself never sends one capability twice. The capability
// itself means something to the API alone.
func (c *Client) Admit(ctx context.Context, r AdmitRequest) (Admission, error) {
	var a verifyAnswer
	if err := c.call(ctx, c.o.VerifyURL, verifyRequest{Envelope: r.Envelope, Binding: r.Binding}, &a); err != nil {
		return Admission{}, err
	}
	hash := r.Binding.Hash()
	if !isToken(a.Capability, maxToken) || !isToken(a.CapabilityID, maxID) || a.BindingHash != hash {
		return Admission{}, refusal.New("gate_unavailable", "the API gave no capability for this binding")
	}
	kept := c.o.Now().Add(evidence.CapabilityKind.MaxLifetime)
	return Admission{
		Capability: a.Capability, CapabilityID: a.CapabilityID, BindingHash: hash, Expires: time.Unix(a.ExpiresAt, 0),
		Keys:   []ledger.Key{{Kind: challenge.CapabilityKey, ID: a.CapabilityID, Expires: kept}},
		Checks: []ledger.Check{{Name: CheckByAPI, OK: true, Detail: "the API gave a capability for it, and answers for what it verified"}},
	}, nil
}

// Authorize has nothing to verify: the API verifies the request proof when the call arrives.
func (c *Client) Authorize(context.Context, AuthorizeRequest) (Authorization, error) {
	return Authorization{}, nil
}

// Bounds on what an API may give, in bytes: it stands in headers, in signed claims and in the record.
const maxToken, maxID = 16 << 10, 256

// isToken reports whether a text is of visible ASCII alone, as a header takes it.
func isToken(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// call asks the API. What it refuses with is its word: it has one of the table's codes, or gate_unavailable, and stands in the record as the API's.
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
		return refusal.New("gate_unavailable", "the API's gate refused with the code %.40q, which is not known here", said.Code()).ForOperator("and said: %.500s", detail)
	}
	refused := refusal.New(said.Code(), "the API's gate refused").ForOperator("and said: %.500s", detail)
	return refusal.Later{Refusal: refused, Seconds: said.RetryAfter()}
}
