// Package tools offers the verification over MCP (Streamable HTTP, official Go SDK). The names, arguments and results
// of the six tools are the same as on the seeds' server. A client may call a tool at once, without initialize and an
// Accept header.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	json2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/verification"
)

const (
	// MaxBody bounds a message, in bytes: a whole trace as a JSON text in a JSON text.
	MaxBody = 2 << 20
	// maxItems bounds the names and values in a message, and in a trace that is a text in it.
	maxItems = 10_000
)

// Options configure the handler.
type Options struct {
	// Hosts are the endpoint's names. Requests for other names are refused, unless for an IP address or from a sidecar: a
	// page in a browser could have led there by a name of its own.
	Hosts []string
	// Caller returns the caller of a request with this body; required.
	Caller func(r *http.Request, body []byte) (verification.Caller, error)
	// Version is the program's, for serverInfo; required.
	Version string
	// Log gets the node's own failures.
	Log *zap.Logger
}

// NewHandler makes the handler of the MCP endpoint. It is stateless, so that each replica can answer any request.
func NewHandler(service *verification.Service, o Options) (http.Handler, error) {
	if service == nil || o.Caller == nil || o.Version == "" {
		return nil, errors.New("tools: a service, Options.Caller and Options.Version are required")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	// The tools never change; a client listening for changes would hold its place forever.
	server := mcp.NewServer(&mcp.Implementation{Name: "mediator-verification", Version: o.Version},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: false}}})
	t := tools{service, flood.Logger(o.Log)}
	add(server, t, "get_registration_challenge",
		"Opens a verification for an Ed25519 public key (PEM). Returns a nonce and a task.", schemaChallenge, t.challenge)
	add(server, t, "submit_challenge_turn",
		"Submits the next turn of a verification. Its hash is the SHA-256 of the JSON of prevHash, toolCall, input, output, "+
			"reasoning and timestamp.", schemaTurn, t.turn)
	add(server, t, "register_plugin",
		"Ends a verification: proves possession of the key, hands in the trace, and registers the plugin.", schemaRegister,
		t.register)
	add(server, t, verification.ToolSearch,
		"Searches the registered plugins. With sessionId the call counts for that verification.", schemaSearch, t.search)
	add(server, t, verification.ToolServers,
		"Lists the MCP servers that the operator of this node names. With sessionId the call counts for that verification.",
		schemaList, t.list)
	add(server, t, "get_plugin_ui_manifest", "Returns the user-interface manifest of a plugin.", schemaManifest,
		t.manifest)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: MaxBody,
		DisableLocalhostProtection: true, // a local proxy passes the name on: see Options.Hosts
	})
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := message(w, r)
		var caller verification.Caller
		if err == nil {
			caller, err = o.Caller(r, body)
		}
		if err == nil && caller.Session == "" && !o.named(r.Host) {
			err = refusal.New("target_mismatch", "the verification is not offered under the host name %.100q", r.Host)
		}
		if err != nil {
			problem.ForAgent(err, "").Write(w)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("Accept", "application/json, text/event-stream") // clients of the original send none
		sdk.ServeHTTP(w, r)
	})), nil
}

// message reads the body of a request. It refuses a batch, which costs as much as all its answers together, and what
// would take much more memory than it has bytes. Other requests than POST are for the SDK to refuse.
func message(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	switch {
	case err != nil:
		return nil, refusal.New("content_too_large", "the message is larger than %d bytes, or broke off", MaxBody)
	case r.Method != http.MethodPost:
		return body, nil
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")):
		return nil, refusal.New("query_malformed",
			"the body is a batch of messages: send each message in its own request")
	}
	if err := strictjson.Check(body, maxItems); err != nil {
		return nil, refusal.New("query_malformed", "the message is malformed: %w", err)
	}
	return body, nil
}

// named reports whether host is a name of the endpoint or an address.
func (o Options) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || slices.Contains(o.Hosts, strings.ToLower(host))
}

type callerKey struct{}

// tools has a method for each tool: arguments in, result out.
type tools struct {
	service *verification.Service
	log     *zap.Logger
}

func add[A any](server *mcp.Server, t tools, name, about, schema string,
	call func(context.Context, verification.Caller, A) (any, error)) {
	var wants struct{ Required []string }
	if err := json.Unmarshal([]byte(schema), &wants); err != nil {
		panic(err) // the schemas are part of the program
	}
	server.AddTool(&mcp.Tool{Name: name, Description: about, InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			caller, _ := ctx.Value(callerKey{}).(verification.Caller) // the service refuses a call without a subject
			var arguments A
			if err := read(req.Params.Arguments, wants.Required, &arguments); err != nil {
				return t.failed(name, err), nil
			}
			result, err := call(ctx, caller, arguments)
			if err != nil {
				return t.failed(name, err), nil
			}
			return written(result, false), nil
		})
}

// read parses arguments, none if raw is empty, and says which are missing.
func read(raw json.RawMessage, required []string, arguments any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := strictjson.ParseMembers(raw, arguments); err != nil {
		return malformed(err)
	}
	var there map[string]json.RawMessage
	if err := json.Unmarshal(raw, &there); err != nil {
		return malformed(err)
	}
	for _, name := range required {
		if _, ok := there[name]; !ok {
			return malformed(fmt.Errorf("%s is missing", name))
		}
	}
	return nil
}

func written(v any, isError bool) *mcp.CallToolResult {
	text, err := json2.Marshal(v) // encoding/json would escape <
	if err != nil {
		panic(err) // results are plain data
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, IsError: isError}
}

const codeFailed = "verification_failed"

type failure struct {
	Success    bool   `json:"success"`
	Code       string `json:"code"`
	Error      string `json:"error"`
	Remedy     string `json:"remedy,omitempty"`
	RetryAfter int    `json:"retryAfter,omitzero"` // seconds
}

// failed hides the details of the node's own failures.
func (t tools) failed(tool string, err error) *mcp.CallToolResult {
	d := problem.ForAgent(err, "")
	if d.Status >= http.StatusInternalServerError {
		t.log.Error("a verification tool failed", zap.String("tool", tool), zap.String("code", d.Code), zap.Error(err))
	}
	return written(failure{Code: d.Code, Error: d.Detail, Remedy: problem.Remedy(d.Code), RetryAfter: d.RetryAfter}, true)
}
