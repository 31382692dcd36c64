package tools

import (
	"context"
	"encoding/json"
	"errors"
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

// Options configure the handler.
type Options struct {
	// Hosts are the endpoint's names. Requests for other names are refused, unless for an IP address or from a sidecar: a
	// page in a browser could have led there by a name of its own.
	Hosts []string
	// Caller returns the caller of a request; required.
	Caller func(*http.Request) (verification.Caller, error)
	// Log gets the node's own failures.
	Log *zap.Logger
}

// NewHandler makes the handler of the MCP endpoint. It is stateless, so that each replica can answer any request.
func NewHandler(service *verification.Service, o Options) (http.Handler, error) {
	if service == nil || o.Caller == nil {
		return nil, errors.New("tools: a service and Options.Caller are required")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	// The tools never change; a client listening for changes would hold its place forever.
	server := mcp.NewServer(&mcp.Implementation{Name: "mediator-verification"},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: false}}})
	t := tools{service, o.Log}
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
		caller, err := o.Caller(r)
		if err != nil {
			problem.ForAgent(err, "").Write(w)
			return
		}
		if caller.Session == "" && !o.named(r.Host) {
			problem.ForAgent(
				refusal.New("target_mismatch", "the verification is not offered under the host name %.100q", r.Host),
				"").Write(w)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
		r.Header.Set("Accept", "application/json, text/event-stream") // clients of the original send none
		sdk.ServeHTTP(w, r)
	})), nil
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
	server.AddTool(&mcp.Tool{Name: name, Description: about, InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			caller, _ := ctx.Value(callerKey{}).(verification.Caller) // the service refuses a call without a subject
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
			return written(result, false), nil
		})
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
