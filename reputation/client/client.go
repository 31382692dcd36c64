// Package client is the sidecar's side of the node that appraises receipts.
//
//	client.go  requests to the node
//	sender.go  hands receipts over from the ledger, in their order, for as long as it takes
//	report.go  what operators are told of that
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// requestTimeout bounds one request to the node.
const requestTimeout = 10 * time.Second

const unavailable = "node_unavailable"

// Client makes requests to a node. Refusals of the node keep their codes; node_unavailable means that there was no proper answer, and then
// what was asked for may have been done. It is safe for concurrent use.
type Client struct {
	base string
	peer wire.Peer
}

// New makes a client for the node at base, such as http://mediator over a unix socket that c dials.
func New(base string, c *http.Client) *Client {
	return &Client{base: base, peer: wire.Peer{HTTP: c, Name: "the node", Unavailable: unavailable}}
}

// Taken is what the node says of the receipts of one session.
type Taken struct {
	Next    int64          // the number of the receipt that it wants next; 0 where it wants none
	Refused *problem.Error // why it has not taken them all; nil if it has
}

type receiptsRequest struct {
	Receipts []string `json:"receipts"`
}

type receiptsAnswer struct {
	Sessions []struct {
		Owner      string          `json:"owner"`
		Session    string          `json:"session"`
		Next       int64           `json:"next"`
		Problem    json.RawMessage `json:"problem"`
		RetryAfter int             `json:"retry_after"` // seconds
	} `json:"sessions"`
}

// HandOver hands receipts of one session over, in their order.
func (c *Client) HandOver(ctx context.Context, session string, receipts []string) (Taken, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var answer receiptsAnswer
	if err := c.peer.Call(ctx, c.base+"/v1/receipts", receiptsRequest{receipts}, &answer); err != nil {
		return Taken{}, err
	}
	if len(answer.Sessions) != 1 || answer.Sessions[0].Session != session {
		return Taken{}, refusal.New(unavailable, "the answer of the node is not about the session of the receipts")
	}
	said := answer.Sessions[0]
	taken := Taken{Next: said.Next}
	if len(said.Problem) > 0 {
		var d problem.Details
		if err := json.Unmarshal(said.Problem, &d); err != nil || d.Code == "" {
			return Taken{}, refusal.New(unavailable, "the node refuses receipts without a problem document")
		}
		d.RetryAfter = said.RetryAfter
		taken.Refused = &problem.Error{Details: d}
	}
	return taken, nil
}

// Reputation returns the token of an agent's reputation, which nobody has verified yet.
func (c *Client) Reputation(ctx context.Context, agentID string) (token string, err error) {
	raw, err := c.Relay(ctx, http.MethodGet, "/v1/reputation/"+url.PathEscape(agentID), nil, "")
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"token"`
	}
	if json.Unmarshal(raw, &answer) != nil || answer.Token == "" {
		return "", refusal.New(unavailable, "the answer of the node has no reputation token")
	}
	return answer.Token, nil
}

// Relay makes a request for an agent and returns the body of the answer. caller is a caller token for exactly this request; empty for a
// public read. No header of the agent goes out.
func (c *Client) Relay(ctx context.Context, method, path string, body []byte, caller string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	h := make(http.Header)
	if len(body) > 0 {
		h.Set("Content-Type", "application/json")
	}
	req, err := c.request(ctx, method, path, h, body, caller)
	if err != nil {
		return nil, err
	}
	return c.peer.Do(req)
}

// Send makes a request for an agent, with these headers besides caller, and returns the node's answer as it comes, whatever it is. ctx bounds it
// to the end of the answer's body, which the caller closes.
func (c *Client) Send(ctx context.Context, method, path string, h http.Header, body []byte, caller string) (*http.Response, error) {
	req, err := c.request(ctx, method, path, h, body, caller)
	if err != nil {
		return nil, err
	}
	return c.peer.Send(req)
}

func (c *Client) request(ctx context.Context, method, path string, h http.Header, body []byte, caller string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	if caller != "" {
		req.Header.Set(interaction.CallerHeader, caller)
	}
	return req, nil
}
