// Package client is the agent's side of a verification: it requests a challenge, calls the tools, submits a turn for
// each call, and registers. A [Verification] holds the state between these steps and can be stored as JSON.
package client

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/reputation/verification"
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

// Close ends the connection.
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

// Code returns the code of the refusal.
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

// Verification is the state of an agent's verification.
type Verification struct {
	SessionID string              `json:"sessionId"`
	Nonce     string              `json:"nonce"`
	Task      verification.Task   `json:"task"`
	Turns     []verification.Turn `json:"turns"` // accepted by the node
	// Call is the last tool call without a turn.
	Call *Call `json:"call,omitempty"`
	// FollowUp is the node's question after the base turns. Answered says that a turn has answered it.
	FollowUp string `json:"followUp,omitempty"`
	Answered bool   `json:"answered,omitempty"`
}

// Call is a tool call.
type Call struct {
	Tool   string `json:"tool"`
	Input  string `json:"input"`  // JSON
	Output string `json:"output"` // JSON
}

// Canary returns the canary in the result, which the next turn's reasoning must name. A node makes none that a shell
// would read otherwise.
func (c Call) Canary() string {
	var out struct {
		Canary string `json:"canary"`
	}
	_ = json.Unmarshal([]byte(c.Output), &out) // other results have no canary
	if !tooled.MatchString(out.Canary) {
		return ""
	}
	return out.Canary
}

// Start requests a verification for the holder of a key.
func (n *Node) Start(ctx context.Context, key ed25519.PrivateKey) (*Verification, error) {
	text, err := publicPEM(key)
	if err != nil {
		return nil, err
	}
	var said struct {
		Nonce   string `json:"nonce"`
		Session struct {
			ID   string            `json:"sessionId"`
			Task verification.Task `json:"task"`
		} `json:"session"`
	}
	if err := n.ask(ctx, "get_registration_challenge", map[string]string{"pubkey": text}, &said); err != nil {
		return nil, err
	}
	tools := said.Session.Task.RequiredTools
	if len(tools) == 0 {
		return nil, fmt.Errorf("%s is not like a node: its task names no tool", n.url)
	}
	for _, tool := range tools {
		if !tooled.MatchString(tool) {
			return nil, fmt.Errorf("%s is not like a node: its task names %.80q, which no tool is called", n.url, tool)
		}
	}
	return &Verification{SessionID: said.Session.ID, Nonce: said.Nonce, Task: said.Session.Task,
		Turns: []verification.Turn{}}, nil
}

// Call calls a tool in the verification's session. Only search_plugins takes a query.
func (n *Node) Call(ctx context.Context, v *Verification, tool, query string) error {
	input := map[string]string{}
	if query != "" {
		input["query"] = query
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return err
	}
	input["sessionId"] = v.SessionID
	output, err := n.call(ctx, tool, input)
	if err != nil {
		return err
	}
	v.Call = &Call{Tool: tool, Input: string(raw), Output: output}
	return nil
}

// Submit submits a turn about the last call with the agent's reasoning.
func (n *Node) Submit(ctx context.Context, v *Verification, reasoning string) error {
	if v.Call == nil {
		return errors.New("no call is waiting for a turn: call a tool first")
	}
	turn := verification.Turn{
		ToolCall: v.Call.Tool, Input: v.Call.Input, Output: v.Call.Output, Reasoning: reasoning,
		Timestamp: time.Now().UnixMilli(),
	}
	previous := verification.ChainSeed
	if len(v.Turns) > 0 {
		previous = v.Turns[len(v.Turns)-1].Hash
	}
	turn.Hash = turn.HashAfter(previous)
	var said struct {
		FollowUp string `json:"followUpPrompt"`
		Answered bool   `json:"followUpCompleted"`
	}
	if err := n.ask(ctx, "submit_challenge_turn", struct {
		SessionID string `json:"sessionId"`
		verification.Turn
	}{v.SessionID, turn}, &said); err != nil {
		return err
	}
	v.Turns, v.Call, v.Answered = append(v.Turns, turn), nil, said.Answered
	if said.FollowUp != "" {
		v.FollowUp = said.FollowUp
	}
	return nil
}

// Registered is the node's judgement of a trace.
type Registered struct {
	Success      bool                 `json:"success"`
	DID          string               `json:"did,omitempty"`
	Verification string               `json:"verification,omitempty"` // the signed result
	Score        int64                `json:"score"`
	MaxScore     int64                `json:"maxScore"`
	Violations   []string             `json:"violations,omitempty"`
	Checks       []verification.Check `json:"checks"`
	Gates        []verification.Gate  `json:"gates"`
	Degraded     bool                 `json:"degraded"`
	RetryAfter   int                  `json:"retryAfter,omitempty"` // seconds
}

// Register ends the verification: it proves possession of the key and hands in the trace. A rejected trace is no error.
func (n *Node) Register(ctx context.Context, v *Verification, key ed25519.PrivateKey,
	plugin verification.Metadata) (*Registered, error) {
	text, err := publicPEM(key)
	if err != nil {
		return nil, err
	}
	const payload = "register_plugin"
	trace := verification.Trace{SessionID: v.SessionID, Turns: v.Turns}
	trace.MerkleRoot = verification.MerkleRoot(trace.Hashes())
	trace.Attestation = verification.Attestation(trace.MerkleRoot, v.SessionID)
	var said Registered
	err = n.ask(ctx, "register_plugin", map[string]any{
		"pubkey": text, "payload": payload, "challengeNonce": v.Nonce,
		"signature":      hex.EncodeToString(ed25519.Sign(key, []byte(v.Nonce+"|"+payload))),
		"challengeTrace": trace, "metadata": plugin,
	}, &said)
	return &said, err
}

// tooled matches the names of tools, and canaries: users paste them into a shell.
var tooled = regexp.MustCompile(`^[\w.-]+$`)

var asked = regexp.MustCompile(`Now call (\w+)(?: again| with the query ([0-9a-f]+))\.`)

// Asked returns the tool and the query that a follow-up asks for, or nothing if it has another form.
func Asked(followUp string) (tool, query string) {
	m := asked.FindStringSubmatch(followUp)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}

func publicPEM(key ed25519.PrivateKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}
