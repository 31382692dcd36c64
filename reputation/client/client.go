// Package client is the sidecar's client of the node.
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

const requestTimeout = 10 * time.Second

const unavailable = "node_unavailable"

// Client makes requests to a node. It keeps the codes of the node's refusals. node_unavailable means that there was no
// proper answer and the outcome is unknown. It is safe for concurrent use.
type Client struct {
	base string
	peer wire.Peer
}

// New makes a client for the node at base, such as http://mediator over a unix socket.
func New(base string, c *http.Client) *Client {
	return &Client{base: base, peer: wire.Peer{HTTP: c, Name: "the node", Unavailable: unavailable}}
}

// Taken is the node's answer about the receipts of one session.
type Taken struct {
	Next    int64          // number of the next wanted receipt; 0 for none
	Refused *problem.Error // why receipts were refused, or nil
}

// HandOver delivers receipts of one session, in order.
func (c *Client) HandOver(ctx context.Context, session string, receipts []string) (Taken, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var answer struct {
		Sessions []struct {
			Owner      string          `json:"owner"`
			Session    string          `json:"session"`
			Next       int64           `json:"next"`
			Problem    json.RawMessage `json:"problem"`
			RetryAfter int             `json:"retry_after"` // seconds
		} `json:"sessions"`
	}
	ask := map[string][]string{"receipts": receipts}
	if err := c.peer.Call(ctx, c.base+"/v1/receipts", ask, &answer); err != nil {
		return Taken{}, err
	}
	if len(answer.Sessions) != 1 || answer.Sessions[0].Session != session {
		return Taken{}, refusal.New(unavailable, "the node answered about another session")
	}
	said := answer.Sessions[0]
	taken := Taken{Next: said.Next}
	if len(said.Problem) > 0 {
		var d problem.Details
		if err := json.Unmarshal(said.Problem, &d); err != nil || d.Code == "" {
			return Taken{}, refusal.New(unavailable, "the node refused receipts without a problem document")
		}
		d.RetryAfter = said.RetryAfter
		taken.Refused = &problem.Error{Details: d}
	}
	return taken, nil
}

// Reputation returns an agent's reputation token, unverified.
func (c *Client) Reputation(ctx context.Context, agentID string) (token string, err error) {
	raw, err := c.Relay(ctx, http.MethodGet, "/v1/reputation/"+url.PathEscape(agentID), nil, "")
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"token"`
	}
	if json.Unmarshal(raw, &answer) != nil || answer.Token == "" {
		return "", refusal.New(unavailable, "the node's answer has no reputation token")
	}
	return answer.Token, nil
}

// Relay makes a request for an agent and returns the answer's body. caller is a caller token for exactly this request,
// or empty for a public read. None of the agent's headers go out.
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

// Send makes a request for an agent, with the headers h. ctx must last until the answer's body is closed.
func (c *Client) Send(ctx context.Context, method, path string, h http.Header, body []byte,
	caller string) (*http.Response, error) {
	req, err := c.request(ctx, method, path, h, body, caller)
	if err != nil {
		return nil, err
	}
	return c.peer.Send(req)
}

func (c *Client) request(ctx context.Context, method, path string, h http.Header, body []byte,
	caller string) (*http.Request, error) {
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
