package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy"
)

// Answer is what the demo's agent learned from one call: the status and, if the call was refused, the code.
type Answer struct {
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
	Post   string `json:"post,omitempty"`
	// Record and Receipt are those of a model's answer that the mediator has asked for.
	Record  string `json:"record,omitempty"`
	Receipt string `json:"receipt,omitempty"`
}

// Outcome returns what a scenario compares: the code of a refusal, or else the status.
func (r Answer) Outcome() string {
	if r.Code != "" {
		return r.Code
	}
	return fmt.Sprint(r.Status)
}

// Call is one call of the demo's agent. The agent is a standard HTTP client with the proxy environment; it knows
// neither keys nor credentials.
type Call struct {
	Method, URL, Body string
	Host              string // if set, the Host inside the tunnel, other than in the CONNECT
	Solve             bool   // solve the challenge when asked to
	Tool              string // if set, the tool of the MCP server at URL that is called
	Think             bool   // ask a model at the same host what to post
	Verify            bool   // pass a verification at the MCP server at URL
	Commit            string // if set, the host and port of a model that a challenge of the node is taken with
	Calls             int    // how often the model is called then
}

// Do makes the call.
func (c Call) Do(ctx context.Context) (Answer, error) {
	switch {
	case c.Verify:
		return c.verify(ctx)
	case c.Commit != "":
		return c.commit(ctx)
	case c.Think:
		return c.think(ctx)
	case c.Host != "":
		return c.withHost(ctx)
	case c.Tool != "":
		return c.callTool(ctx)
	}
	return c.send(ctx, nil, c.Solve)
}

// send sends the call through the proxy of the environment. If fresh work is demanded and solve is set, send solves the
// challenge and sends the call again.
func (c Call) send(ctx context.Context, extra http.Header, solve bool) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, c.Method, c.URL, bytes.NewReader([]byte(c.Body)))
	if err != nil {
		return Answer{}, err
	}
	if c.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range extra {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return refusedConnect(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return Answer{}, err
	}
	r := Answer{Status: resp.StatusCode, Post: resp.Header.Get("ActionProof-Post")}
	var d problem.Details
	switch {
	case resp.Header.Get("Content-Type") == problem.ContentType && json.Unmarshal(raw, &d) == nil:
		r.Code, r.Detail = d.Code, d.Detail
	case req.URL.Hostname() == proxy.InternalHost:
		var said struct{ Record, Receipt string }
		if err := json.Unmarshal(raw, &said); err != nil {
			return r, err
		}
		r.Record, r.Receipt = said.Record, said.Receipt
	}
	if r.Code != "challenge_required" || !solve {
		return r, nil
	}
	answer, err := Solve(ctx, d.Challenge)
	if err != nil {
		return r, err
	}
	return c.send(ctx, answer, false)
}

// post sends JSON through the proxy of the environment, and returns the answer and its body.
func post(ctx context.Context, to string, header map[string]string, ask any) (*http.Response, []byte, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, raw, err
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

// refusedConnect reads the error that a Go client makes of a refused CONNECT: the reason phrase, which begins with the code.
func refusedConnect(err error) (Answer, error) {
	var u *url.Error
	if errors.As(err, &u) {
		code, detail, _ := strings.Cut(u.Err.Error(), ": ")
		if problem.Known(code) {
			return Answer{Code: code, Detail: detail}, nil
		}
	}
	return Answer{}, err
}

// withHost opens a tunnel to the URL's host by hand, and names another host inside it.
func (c Call) withHost(ctx context.Context) (Answer, error) {
	target, err := url.Parse(c.URL)
	if err != nil {
		return Answer{}, err
	}
	via, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return Answer{}, err
	}
	client := &http.Client{Transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			raw, err := d.DialContext(ctx, "tcp", via.Host)
			if err != nil {
				return nil, err
			}
			if err := openTunnel(raw, target.Host, via.User); err != nil {
				raw.Close()
				return nil, err
			}
			return tls.Client(raw, &tls.Config{ServerName: target.Hostname(), MinVersion: tls.VersionTLS12}), nil
		},
	}}
	req, err := http.NewRequestWithContext(ctx, c.Method, c.URL, bytes.NewReader([]byte(c.Body)))
	if err != nil {
		return Answer{}, err
	}
	req.Host = c.Host
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	var d problem.Details
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&d); err != nil {
		return Answer{Status: resp.StatusCode}, nil //nolint:nilerr // an answer without a document is an answer
	}
	return Answer{Status: resp.StatusCode, Code: d.Code, Detail: d.Detail}, nil
}

func openTunnel(c net.Conn, authority string, user *url.Userinfo) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: authority}, Host: authority, Header: http.Header{}}
	if user != nil {
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.String())))
	}
	if err := req.Write(c); err != nil {
		return err
	}
	// Read the answer byte by byte, so that the bytes after it stay in the connection.
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if head = append(head, b[0]); len(head) > 64<<10 {
			return fmt.Errorf("the proxy's answer to CONNECT has no end")
		}
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("the proxy refused CONNECT: %.60q", head)
	}
	return nil
}
