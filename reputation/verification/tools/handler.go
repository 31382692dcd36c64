package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	json2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/verification"
)

// MaxBody bounds a message, in bytes: a whole trace as a JSON text in a JSON text.
const MaxBody = 2 << 20

// Options configures the handler.
type Options struct {
	// Hosts are the names under which the endpoint is reached. A request for another name is refused, unless it is for an IP address, or a
	// sidecar names its caller: a page in a browser could have led there by a name of its own.
	Hosts []string
	// Caller says who calls; required. An error refuses the request, by its code.
	Caller func(*http.Request) (verification.Caller, error)
	// Version is the program's, which clients are told.
	Version string
	// Called is told of each call: the tool, and the code of its refusal, which is empty after a success. Left out, nobody is told.
	Called func(tool, code string)
	// Log gets the failures that are the node's own.
	Log *zap.Logger
}

// NewHandler makes the handler of the MCP endpoint. It is stateless: a request needs no session of MCP, and each replica can answer it.
func NewHandler(service *verification.Service, o Options) (http.Handler, error) {
	if service == nil || o.Caller == nil {
		return nil, errors.New("tools: a service and a function that tells the caller are required")
	}
	if o.Called == nil {
		o.Called = func(string, string) {}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	// The tools never change, and it says so: a client that listened for changes would have its place for ever.
	server := mcp.NewServer(&mcp.Implementation{Name: "mediator-verification", Version: o.Version},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: false}}})
	t := tools{service, o.Called, o.Log}
	add(server, t, "get_registration_challenge", "Opens a verification for an Ed25519 public key (PEM). Returns a nonce and a task.", schemaChallenge, t.challenge)
	add(server, t, "submit_challenge_turn", "Submits the next turn of a verification. Its hash is the SHA-256 of the JSON of prevHash, toolCall, input, output, reasoning and timestamp.", schemaTurn, t.turn)
	add(server, t, "register_plugin", "Ends a verification: proves possession of the key, hands in the trace, and registers the plugin.", schemaRegister, t.register)
	add(server, t, verification.ToolSearch, "Searches the registered plugins. With sessionId the call counts for that verification.", schemaSearch, t.search)
	add(server, t, verification.ToolServers, "Lists the MCP servers that the operator of this node names. With sessionId the call counts for that verification.", schemaList, t.list)
	add(server, t, "get_plugin_ui_manifest", "Returns the user-interface manifest of a plugin.", schemaManifest, t.manifest)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: MaxBody,
		DisableLocalhostProtection: true, // a proxy on the same machine passes the name on: see Options.Hosts
	})
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := o.Caller(r)
		if err != nil {
			problem.ForAgent(err, "").Write(w)
			return
		}
		if caller.Session == "" && !o.named(r.Host) {
			problem.ForAgent(refusal.New("target_mismatch", "the verification has another name than %.100q", r.Host), "").Write(w)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
		r.Header.Set("Accept", "application/json, text/event-stream") // clients of the original send none, and JSON is what they get
		sdk.ServeHTTP(w, withParams(r))
	})), nil
}

// named reports whether host, with its port if it has one, is a name of the endpoint or an address.
func (o Options) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || slices.Contains(o.Hosts, strings.ToLower(host))
}

// longestBare bounds an initialize without params, in bytes.
const longestBare = 512

// withParams gives an initialize without params empty ones. Clients of the original may send it so, and the SDK would refuse it.
func withParams(r *http.Request) *http.Request {
	body := bufio.NewReaderSize(r.Body, longestBare)
	message, err := body.Peek(longestBare)
	var bare struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	whole := io.Reader(body)
	if errors.Is(err, io.EOF) && strictjson.ParseMembers(message, &bare) == nil && bare.Method == "initialize" {
		whole = io.MultiReader(bytes.NewReader(bytes.TrimSuffix(bytes.TrimSpace(message), []byte("}"))), strings.NewReader(`,"params":{}}`))
		r.ContentLength = -1
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{whole, r.Body}
	return r
}

type callerKey struct{}

// tools has a method for each tool: it takes the arguments, and returns what is written as the result's text.
type tools struct {
	service *verification.Service
	called  func(tool, code string)
	log     *zap.Logger
}

// add adds a tool whose arguments are an A.
func add[A any](server *mcp.Server, t tools, name, about, schema string, call func(context.Context, verification.Caller, A) (any, error)) {
	server.AddTool(&mcp.Tool{Name: name, Description: about, InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			caller, _ := ctx.Value(callerKey{}).(verification.Caller) // without a subject the service refuses the call
			var arguments A
			if raw := req.Params.Arguments; len(raw) > 0 {
				if err := strictjson.ParseMembers(raw, &arguments); err != nil {
					return t.failed(name, malformed(err)), nil
				}
			}
			result, err := call(ctx, caller, arguments)
			if err != nil {
				return t.failed(name, err), nil
			}
			code := ""
			if r, ok := result.(rejection); ok {
				code = r.Code
			}
			t.called(name, code)
			return written(result, false), nil
		})
}

func written(v any, isError bool) *mcp.CallToolResult {
	text, err := json2.Marshal(v) // encoding/json would write < as \u003c, which is longer
	if err != nil {
		panic(err) // results are plain data
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, IsError: isError}
}

// codeFailed is the code of a registration that was judged and rejected.
const codeFailed = "verification_failed"

// failure is the text of a result that is a refusal.
type failure struct {
	Success    bool   `json:"success"`
	Code       string `json:"code"`
	Error      string `json:"error"`
	Remedy     string `json:"remedy,omitempty"`
	RetryAfter int    `json:"retryAfter,omitzero"` // seconds; json2 would write a 0 otherwise
}

// failed writes a refusal. What is the node's own failure says nothing but that.
func (t tools) failed(tool string, err error) *mcp.CallToolResult {
	d := problem.ForAgent(err, "")
	t.called(tool, d.Code)
	if d.Status >= http.StatusInternalServerError {
		t.log.Error("a verification tool failed", zap.String("tool", tool), zap.String("code", d.Code), zap.Error(err))
	}
	return written(failure{Code: d.Code, Error: d.Detail, Remedy: problem.Remedy(d.Code), RetryAfter: d.RetryAfter}, true)
}
