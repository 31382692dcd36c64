// Package agent is the demo's agent, with the tools and the model that it uses.
//
//	agent.go  one plain call
//	tools.go  an MCP server, and a call of its tools
//	model.go  the provider of a model
//	think.go  the agent that asks the model
//	node.go   the agent that takes a challenge or a verification of the node
package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/proxy"
)

// Call is one call of the demo's agent, a standard HTTP client with the proxy environment and without credentials.
type Call struct {
	Method, URL, Body string
	Host              string // if set, the Host of the request, other than that of the CONNECT
	Solve             bool   // solve the challenge when asked to
	Tool              string // if set, call this tool of the MCP server at URL
	Think             bool   // ask a model at the same host what to post
	Verify            bool   // pass a verification at the MCP server at URL
	Commit            string // if set, take a challenge of the node with the model at this host and port
	Calls             int    // how often to call the model then
}

// Do makes the call.
func (c Call) Do(ctx context.Context) (trial.Answer, error) {
	switch {
	case c.Verify:
		return c.verify(ctx)
	case c.Commit != "":
		return c.commit(ctx)
	case c.Think:
		return c.think(ctx)
	case c.Tool != "":
		return c.callTool(ctx)
	}
	return c.send(ctx, nil)
}

func (c Call) exchange(ctx context.Context, header http.Header) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, c.Method, c.URL, strings.NewReader(c.Body))
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		req.Header = header
	}
	if c.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Host != "" {
		req.Host = c.Host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, raw, err
}

func post(ctx context.Context, url string, header http.Header, document any) (*http.Response, []byte, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return nil, nil, err
	}
	return Call{Method: http.MethodPost, URL: url, Body: string(body)}.exchange(ctx, header)
}

// send makes a plain call. With c.Solve it solves a demanded challenge and sends the call again.
func (c Call) send(ctx context.Context, header http.Header) (trial.Answer, error) {
	resp, raw, err := c.exchange(ctx, header)
	if err != nil {
		return refusedConnect(err)
	}
	r := trial.Answer{Status: resp.StatusCode, Post: resp.Header.Get("ActionProof-Post")}
	var d problem.Details
	switch {
	case problem.Is(resp.Header) && json.Unmarshal(raw, &d) == nil:
		r.Code, r.Detail = d.Code, d.Detail
	case resp.Request.URL.Hostname() == proxy.InternalHost:
		var said struct{ Record, Receipt string }
		if err := json.Unmarshal(raw, &said); err != nil {
			return r, err
		}
		r.Record, r.Receipt = said.Record, said.Receipt
	}
	if r.Code != "challenge_required" || !c.Solve {
		return r, nil
	}
	if header, err = Solve(ctx, d.Challenge); err != nil {
		return r, err
	}
	c.Solve = false
	return c.send(ctx, header)
}

// Solve returns the headers that answer a challenge.
func Solve(ctx context.Context, document []byte) (http.Header, error) {
	ch, err := challenge.ParseChallenge(document)
	if err != nil {
		return nil, err
	}
	answers, err := challenge.Solve(ctx, ch.Tasks)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(evidence.Response{ChallengeID: ch.ID, Answers: answers})
	if err != nil {
		return nil, err
	}
	return http.Header{
		"Actionproof-Challenge": {ch.Token},
		"Actionproof-Response":  {base64.RawURLEncoding.EncodeToString(raw)},
	}, nil
}

// refusedConnect reads the error of Go's client for a refused CONNECT: the reason phrase, which begins with the code.
func refusedConnect(err error) (trial.Answer, error) {
	var u *url.Error
	if errors.As(err, &u) {
		code, detail, _ := strings.Cut(u.Err.Error(), ": ")
		if problem.Known(code) {
			return trial.Answer{Code: code, Detail: detail}, nil
		}
	}
	return trial.Answer{}, err
}
