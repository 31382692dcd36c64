// Package xray asks the three servers of the xray bridge about an agent: MCP servers with the tools orchestrate-task,
// govern_proposals and codex-enforcement. A server that fails or answers in another form counts as unavailable, and the
// verification continues without it.
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

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/reputation/verification"
)

// Timeout bounds one question to one server.
const Timeout = 5 * time.Second

const maxAnswer = 1 << 20

// Reasons why a server is unavailable.
const (
	reasonTimeout     = "timeout"
	reasonUnreachable = "unreachable"
	reasonToolError   = "tool_error"
	reasonWrongShape  = "wrong_shape"
)

// Server is an MCP server over Streamable HTTP.
type Server struct {
	// URL is its endpoint; empty if the gate is not configured.
	URL string
	// Token, if set, is sent in Header as it is, or as a bearer token if Header is empty.
	Token, Header string
	// RootCAs defaults to the system's.
	RootCAs *x509.CertPool

	client *http.Client
}

// Options configure a [Bridge].
type Options struct {
	Orchestrate, Govern, Enforce Server
	// Timeout defaults to [Timeout].
	Timeout time.Duration
	Log     *zap.Logger
}

// Bridge asks the servers, each time by a new connection. It is safe for concurrent use.
type Bridge struct {
	o Options
}

// New makes a bridge.
func New(o Options) *Bridge {
	if o.Timeout <= 0 {
		o.Timeout = Timeout
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Log = flood.Logger(o.Log) // each stranger's verification asks the servers
	for _, s := range []*Server{&o.Orchestrate, &o.Govern, &o.Enforce} {
		s.client = s.newClient()
	}
	return &Bridge{o}
}

// Ask asks the server of a gate; it implements [verification.Gates].
func (b *Bridge) Ask(ctx context.Context, gate string, q verification.Question) verification.Answer {
	switch gate {
	case verification.GateOrchestrate:
		// 0xRay's orchestrator handles governance tasks itself. It defers unknown types and reports that as a failure.
		return b.ask(ctx, b.o.Orchestrate, "orchestrate-task", object{"description": "Verification of " + q.DID,
			"tasks": []object{{"id": "verification", "description": q.Prompt, "type": "governance"}}}, orchestrated)
	case verification.GateGovern:
		evidence := []string{"verification requested"}
		if len(q.Turns) > 0 {
			evidence = []string{"possession of the key proven", fmt.Sprint("turns: ", len(q.Turns))}
		}
		return b.ask(ctx, b.o.Govern, "govern_proposals", object{"proposals": []object{{
			"id": q.DID, "type": "automate", "title": "Plugin registration", "description": "Registration of " + q.DID,
			"evidence": evidence, "source": "system", "confidence": 0.9,
		}}}, func(raw []byte) (verification.Answer, error) { return governed(raw, q.DID) })
	}
	steps := make([]object, 0, len(q.Turns))
	for _, t := range q.Turns {
		steps = append(steps, object{"tool": t.ToolCall, "reasoning": t.Reasoning})
	}
	code, err := json.Marshal(object{"reasoningTrace": steps, "taskPrompt": q.Prompt})
	if err != nil {
		panic(err) // plain data
	}
	return b.ask(ctx, b.o.Enforce, "codex-enforcement", object{"operation": "reasoning-evaluation",
		"files": []string{q.DID}, "newCode": string(code)}, enforced)
}

type object = map[string]any

// ask makes a server that fails in any way unavailable.
func (b *Bridge) ask(ctx context.Context, s Server, tool string, arguments any,
	read func([]byte) (verification.Answer, error)) verification.Answer {
	if s.URL == "" {
		return verification.Answer{Status: verification.GateNotConfigured}
	}
	bounded, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	raw, err := call(bounded, s, tool, arguments)
	if err == nil {
		var answer verification.Answer
		if answer, err = read(raw); err == nil {
			return answer
		}
		err = answered{err, reasonWrongShape}
	}
	reason := reasonUnreachable
	var by answered
	if errors.As(err, &by) {
		reason = by.reason
	} else if bounded.Err() != nil {
		reason = reasonTimeout
	}
	b.o.Log.Warn("a server of the xray bridge is skipped", zap.String("tool", tool), zap.String("reason", reason),
		zap.Error(err))
	return verification.Answer{Status: verification.GateUnavailable, Reason: reason}
}

// answered is an answer that is a failure, or has an unexpected form.
type answered struct {
	error
	reason string
}

// call connects, calls one tool and returns the JSON of its result.
func call(ctx context.Context, s Server, tool string, arguments any) ([]byte, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "mediator"},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: s.client, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	if result.IsError {
		return nil, answered{errors.New("the tool reports a failure"), reasonToolError}
	}
	if result.StructuredContent != nil {
		return json.Marshal(result.StructuredContent)
	}
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return []byte(text.Text), nil
		}
	}
	return nil, answered{errors.New("the result has no text"), reasonWrongShape}
}

// newClient sends the token, bounds answers, follows no redirects and uses no proxy.
func (s *Server) newClient() *http.Client {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.RootCAs, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 4,
		IdleConnTimeout: Timeout,
	}
	shown := wire.Bearer(s.Token, t)
	if s.Token != "" && s.Header != "" {
		shown = wire.Header(s.Header, s.Token, t)
	}
	return &http.Client{CheckRedirect: wire.Stay, Transport: wire.Bounded(maxAnswer, shown)}
}
