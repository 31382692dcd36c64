// Package client is the agent's side of a verification: it requests a challenge, calls the tools, submits a turn for
// each call, and registers. A [Verification] holds the state between these steps and can be stored as JSON.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
)

const (
	timeout   = 30 * time.Second
	maxAnswer = 1 << 20
)

// Node is a connection to a node. It is safe for concurrent use.
type Node struct {
	url     string
	session *mcp.ClientSession
}

// Dial connects to the URL of a node's MCP endpoint; nil is [http.DefaultTransport]. Close the node at the end.
func Dial(ctx context.Context, url string, transport http.RoundTripper) (*Node, error) {
	if transport == nil {
		transport = http.DefaultTransport
	}
	transport = refusing{transport}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "mediator"},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: wire.Bounded(maxAnswer, transport), CheckRedirect: wire.Stay},
		MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer like a node: %w", url, err)
	}
	return &Node{url, session}, nil
}

// refusing turns a refusal into an error; the SDK would report only its status.
type refusing struct{ next http.RoundTripper }

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil || resp.StatusCode < http.StatusBadRequest || !problem.Is(resp.Header) {
		return resp, err
	}
	defer resp.Body.Close()
	return nil, problem.Read(resp)
}

func (n *Node) Close() { _ = n.session.Close() }

// Refused is the node's refusal of a call.
type Refused struct {
	Reason  string `json:"code"`
	Detail  string `json:"error"`
	Remedy  string `json:"remedy"`
	Seconds int    `json:"retryAfter"` // 0 if waiting does not help
}

// Error returns the refusal with its remedy.
func (r *Refused) Error() string {
	text := "the node refused: " + r.Detail
	if r.Remedy != "" {
		text += ". " + r.Remedy
	}
	if r.Seconds > 0 {
		text += fmt.Sprintf(" Wait %v.", time.Duration(r.Seconds)*time.Second)
	}
	return text
}

func (r *Refused) Code() string { return r.Reason }

func (n *Node) call(ctx context.Context, tool string, arguments any) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := n.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w", tool, n.url, err)
	}
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text, refusalOf(result.IsError, t.Text)
		}
	}
	return "", fmt.Errorf("%s at %s: the result has no text", tool, n.url)
}

// refusalOf returns the refusal in a result's text, or nil. A rejected registration is none.
func refusalOf(isError bool, text string) error {
	if !isError {
		return nil
	}
	var r Refused
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Reason == "" {
		return errors.New("the node refused without a reason")
	}
	return &r
}

func (n *Node) ask(ctx context.Context, tool string, arguments, result any) error {
	text, err := n.call(ctx, tool, arguments)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), result); err != nil {
		return fmt.Errorf("%s at %s: the result has an unexpected form: %w", tool, n.url, err)
	}
	return nil
}
