// Package xray asks the three servers of the xray bridge about an agent that is verified: MCP servers with the tools orchestrate-task,
// govern_proposals and codex-enforcement. A server that is away, slow, or answers in another shape is unavailable, and the verification goes
// on without it.
package xray

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/reputation/verification"
)

// Timeout bounds one question to one server, with everything that it takes.
const Timeout = 5 * time.Second

// maxAnswer bounds what a server sends in answer to one request, in bytes.
const maxAnswer = 1 << 20

// Why a server is unavailable.
const (
	reasonTimeout     = "timeout"
	reasonUnreachable = "unreachable"
	reasonToolError   = "tool_error"
	reasonWrongShape  = "wrong_shape"
)

// Server is one MCP server, over Streamable HTTP.
type Server struct {
	// URL is its endpoint; left out, the gate is not configured.
	URL string
	// Token is what it demands of its clients; left out, nothing.
	Token string
	// Header has the token, as it is; left out, it is a bearer token.
	Header string
	// RootCAs are those that it is believed by; left out, the system's. Redirects are not followed.
	RootCAs *x509.CertPool

	client *http.Client
}

// Options names the servers.
type Options struct {
	Orchestrate, Govern, Enforce Server
	// Timeout bounds one question; left out, Timeout.
	Timeout time.Duration
	// Version is the program's, which servers are told.
	Version string
	Log     *zap.Logger
}

// Bridge asks the servers. Each question makes a connection of its own, so a server that comes back is asked again. It is safe for concurrent
// use.
type Bridge struct {
	o Options
}

var _ verification.Gates = (*Bridge)(nil)

// New makes a bridge.
func New(o Options) *Bridge {
	if o.Timeout <= 0 {
		o.Timeout = Timeout
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	for _, s := range []*Server{&o.Orchestrate, &o.Govern, &o.Enforce} {
		s.client = s.newClient()
	}
	return &Bridge{o}
}

// Orchestrate tells the orchestrator of the task. Its answer changes nothing but the result's record: the trace is the primary gate.
func (b *Bridge) Orchestrate(ctx context.Context, q verification.Question) verification.Answer {
	type task struct {
		ID          string `json:"id"`
		Description string `json:"description"`
		Type        string `json:"type"`
	}
	// 0xRay's orchestrator does tasks of governance by itself. Those of a type that it does not know it only defers, and calls that a failure.
	return b.ask(ctx, b.o.Orchestrate, "orchestrate-task", map[string]any{
		"description": "Verification of " + q.DID, "tasks": []task{{"verification", q.Prompt, "governance"}},
	}, orchestrated)
}

// Govern asks for a decision about the agent, and for its resonance from prior governance.
func (b *Bridge) Govern(ctx context.Context, q verification.Question) verification.Answer {
	evidence := []string{"verification requested"}
	if len(q.Turns) > 0 {
		evidence = []string{"possession of the key proven", fmt.Sprint("turns: ", len(q.Turns))}
	}
	return b.ask(ctx, b.o.Govern, "govern_proposals", map[string]any{"proposals": []map[string]any{{
		"id": q.DID, "type": "automate", "title": "Plugin registration", "description": "Registration of " + q.DID, "evidence": evidence,
		"source": "system", "confidence": 0.9,
	}}}, func(raw []byte) (verification.Answer, error) { return governed(raw, q.DID) })
}

// Enforce has the reasoning of the turns evaluated against the task.
func (b *Bridge) Enforce(ctx context.Context, q verification.Question) verification.Answer {
	type step struct {
		Tool      string `json:"tool"`
		Reasoning string `json:"reasoning"`
	}
	steps := make([]step, 0, len(q.Turns))
	for _, t := range q.Turns {
		steps = append(steps, step{t.ToolCall, t.Reasoning})
	}
	code, err := json.Marshal(map[string]any{"reasoningTrace": steps, "taskPrompt": q.Prompt})
	if err != nil {
		panic(err) // it is plain data
	}
	return b.ask(ctx, b.o.Enforce, "codex-enforcement", map[string]any{
		"operation": "reasoning-evaluation", "files": []string{q.DID}, "newCode": string(code),
	}, enforced)
}

// ask calls a tool and reads its answer. Everything that goes wrong makes the server unavailable.
func (b *Bridge) ask(ctx context.Context, s Server, tool string, arguments any, read func([]byte) (verification.Answer, error)) verification.Answer {
	if s.URL == "" {
		return verification.Answer{Status: verification.GateNotConfigured}
	}
	bounded, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	raw, err := call(bounded, s, b.o.Version, tool, arguments)
	if err == nil {
		var answer verification.Answer
		if answer, err = read(raw); err == nil {
			return answer
		}
		err = shapeError{err}
	}
	reason := reasonOf(bounded, err)
	b.o.Log.Warn("a server of the xray bridge is skipped", zap.String("tool", tool), zap.String("reason", reason), zap.Error(err))
	return verification.Answer{Status: verification.GateUnavailable, Reason: reason}
}

// toolError is what a tool says is wrong, and shapeError an answer in another shape.
type (
	toolError  struct{ error }
	shapeError struct{ error }
)

func reasonOf(ctx context.Context, err error) string {
	var tool toolError
	var shape shapeError
	switch {
	case errors.As(err, &shape):
		return reasonWrongShape
	case errors.As(err, &tool):
		return reasonToolError
	case ctx.Err() != nil:
		return reasonTimeout
	}
	return reasonUnreachable
}

// call makes one connection, calls one tool, and returns the JSON of its result.
func call(ctx context.Context, s Server, version, tool string, arguments any) ([]byte, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "mediator", Version: version}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: s.client, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // the answer is there, or it is not
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	if result.IsError {
		return nil, toolError{errors.New("the tool says that it has failed")}
	}
	if result.StructuredContent != nil {
		return json.Marshal(result.StructuredContent)
	}
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return []byte(text.Text), nil
		}
	}
	return nil, shapeError{errors.New("the result has no text")}
}

// newClient returns a client that shows the token, reads no more than maxAnswer of an answer, follows no redirect, and uses no proxy.
func (s *Server) newClient() *http.Client {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.RootCAs, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 4, IdleConnTimeout: Timeout,
	}
	shown := wire.Bearer(s.Token, t)
	if s.Token != "" && s.Header != "" {
		shown = wire.Header(s.Header, s.Token, t)
	}
	return &http.Client{CheckRedirect: wire.Stay, Transport: wire.Bounded(maxAnswer, shown)}
}
