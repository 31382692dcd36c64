package mcp

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
)

// Versions are the supported revisions, latest first.
var Versions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

const (
	headersMirror = "2026-07-28" // headers repeat the body, and each request names its revision
	// oldTransport uses HTTP with SSE, where answers come on another connection. Some servers name it over Streamable
	// HTTP, and their clients repeat it. Its messages are read like the next revision's, but [Judge] allows no posts.
	oldTransport = "2024-11-05"
)

const (
	callTool    = "tools/call"
	listTools   = "tools/list"
	initialize  = "initialize"
	discover    = "server/discover"
	elicitation = "elicitation/create"
	sampling    = "sampling/createMessage"
	listRoots   = "roots/list"
	ping        = "ping"
)

// Bounds on a message, in bytes.
const (
	maxID     = 256
	maxMethod = 128
	maxName   = 2048
	maxState  = 64 << 10
	maxHeader = 4 << 10 // of the id of a session or an event
	maxInputs = 64      // inputResponses
)

// in _meta
const versionMember = "io.modelcontextprotocol/protocolVersion"

// ID is in its shortest spelling; empty for none.
type ID string

// Message is one JSON-RPC message from a client.
type Message struct {
	ID        ID     // empty for a notification
	Method    string // empty for a response
	Name      string // of the tool, prompt or resource of a request
	Arguments json.RawMessage

	params         object
	result, failed member
	inputs         object // inputResponses
	state          string
}

// Does describes the message in a record.
func (m *Message) Does() string {
	switch {
	case m.Method == "":
		return "response"
	case m.Method == callTool:
		return callTool + " " + printable(m.Name)
	}
	return printable(m.Method)
}

// printable quotes and cuts a name that no rule can contain.
func printable(name string) string {
	if isToolName(name) {
		return name
	}
	return fmt.Sprintf("%.128q", name)
}

// Asks is the message in a record.
func (m *Message) Asks() *ledger.MCPMessage {
	asks := &ledger.MCPMessage{}
	if m.Method != "" {
		asks.Method = printable(m.Method)
	}
	if m.Method == callTool {
		asks.Tool = printable(m.Name)
	}
	return asks
}

// IsCall reports whether the message calls a tool and expects an answer.
func (m *Message) IsCall() bool { return m.Method == callTool && m.ID != "" }

// IsRequest reports whether the message expects an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != "" }

// isRetry reports whether the message continues an earlier request.
func (m *Message) isRetry() bool { return len(m.inputs) > 0 || m.state != "" }

// BoundedArguments returns a tool's arguments, or nil beyond most bytes.
func (m *Message) BoundedArguments(most int) json.RawMessage {
	switch {
	case m.Arguments == nil:
		return json.RawMessage("{}")
	case len(m.Arguments) > most:
		return nil
	}
	return m.Arguments
}

// Read reads one message strictly and compares the request's headers with it. On failure it returns what it has read,
// such as the id for the answer.
func Read(body []byte, header http.Header) (*Message, error) {
	o, err := readMessage(body)
	if err != nil {
		return nil, err
	}
	m := &Message{}
	if err = m.envelope(o); err == nil {
		err = m.parameters(o.Get("params"))
	}
	if err == nil {
		err = m.agree(header)
	}
	if m.ID == "" && m.Method == "" {
		return nil, err
	}
	return m, err
}

func (m *Message) envelope(o object) (err error) {
	if err := spelled(o, "jsonrpc", "id", "method", "params", "result", "error"); err != nil {
		return err
	}
	if id := o.Get("id"); id.Value != nil {
		if m.ID, err = readID(id.Value); err != nil {
			return err
		}
	}
	if version, _ := o.Get("jsonrpc").Text(); version != "2.0" {
		return malformed("the message is not of JSON-RPC 2.0")
	}
	method, result, failure := o.Get("method"), o.Get("result"), o.Get("error")
	if method.Value != nil {
		text, ok := method.Text()
		switch {
		case !ok || text == "" || len(text) > maxMethod:
			return malformed("the method is not a text of 1 to %d bytes", maxMethod)
		case result.Value != nil || failure.Value != nil:
			return malformed("the message is both a request and a response")
		}
		m.Method = text
		return nil
	}
	if m.ID == "" || (result.Value == nil) == (failure.Value == nil) || o.Get("params").Value != nil {
		return malformed("the message is neither a request nor a notification nor a response")
	}
	m.result, m.failed = result, failure
	return nil
}

func (m *Message) parameters(params member) error {
	if params.Value != nil && params.Value.Kind() != '{' {
		return malformed("the parameters are not an object")
	}
	m.params = params.Members
	if err := spelled(m.params, "_meta", "name", "uri", "arguments", "inputResponses", "requestState",
		"protocolVersion"); err != nil {
		return err
	}
	if meta := m.params.Get("_meta"); meta.Value != nil && meta.Value.Kind() != '{' {
		return malformed("_meta is not an object")
	} else if err := spelled(meta.Members, versionMember); err != nil {
		return err
	}
	named := map[string]string{callTool: "name", "prompts/get": "name", "resources/read": "uri"}[m.Method]
	if named != "" {
		var ok bool
		if m.Name, ok = m.params.Get(named).Text(); !ok || m.Name == "" || len(m.Name) > maxName {
			return malformed("the member %s of the parameters is not a text of 1 to %d bytes", named, maxName)
		}
	}
	if args := m.params.Get("arguments"); args.Value != nil && m.Method == callTool {
		if args.Value.Kind() != '{' {
			return malformed("the arguments are not an object")
		}
		m.Arguments = json.RawMessage(args.Value)
	}
	return m.retry()
}

// Multi Round-Trip Requests, since 2026-07-28
func (m *Message) retry() error {
	if responses := m.params.Get("inputResponses"); responses.Value != nil {
		if responses.Value.Kind() != '{' || len(responses.Members) > maxInputs {
			return malformed("inputResponses is not an object of up to %d members", maxInputs)
		}
		m.inputs = responses.Members
	}
	if state := m.params.Get("requestState"); state.Value != nil {
		var ok bool
		if m.state, ok = state.Text(); !ok || m.state == "" || len(m.state) > maxState {
			return malformed("requestState is not a text of 1 to %d bytes", maxState)
		}
	}
	return nil
}

// spelled refuses a name in another case, which some parsers ignore.
func spelled(o object, names ...string) error {
	if has, meant, found := o.OtherCase(names...); found {
		return refusal.New("message_ambiguous", "the message has the member %.60q, which some parsers take for %s", has,
			meant)
	}
	return nil
}

const maxInteger = 1<<53 - 1

// readID takes a text, or an integer up to maxInteger, which every parser represents exactly.
func readID(v jsontext.Value) (ID, error) {
	switch v.Kind() {
	case '"':
		text, ok := member{Value: v}.Text()
		if ok && len(text) <= maxID {
			return ID(quote(text)), nil
		}
	case '0':
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err == nil && n <= maxInteger && n >= -maxInteger && strconv.FormatInt(n, 10) == string(v) { // excludes -0
			return ID(v), nil
		}
	}
	return "", malformed("the id is neither a text of up to %d bytes nor an integer that every parser holds", maxID)
}

// IsHeader reports whether [Read] checks a header.
func IsHeader(name string) bool {
	return slices.Contains([]string{"Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"}, name) ||
		strings.HasPrefix(name, "Mcp-Param-")
}

// CheckStream is for a request without a message, which opens an event stream or ends a session.
func CheckStream(header http.Header) error {
	err := cmp.Or(dashed(header), atMostOnce(header, "Mcp-Session-Id"), atMostOnce(header, "Mcp-Protocol-Version"),
		atMostOnce(header, "Last-Event-Id"))
	if version := header.Get("Mcp-Protocol-Version"); err == nil && version != "" {
		return known(version)
	}
	return err
}

// Readers differ in which repeated value they use.
func atMostOnce(header http.Header, name string) error {
	switch values := header[name]; {
	case len(values) > 1:
		return mismatch("the header %s occurs %d times", name, len(values))
	case len(values) == 1 && len(values[0]) > maxHeader:
		return malformed("the header %s has more than %d bytes", name, maxHeader)
	}
	return nil
}

// Some servers do not distinguish underscores from hyphens.
func dashed(header http.Header) error {
	for name := range header {
		meant := wire.CGIName(name)
		if meant != name && (strings.HasPrefix(meant, "Mcp-") || meant == "Last-Event-Id") {
			return refusal.New("override_refused", "some servers take the header %.60s for %.60s", name, meant)
		}
	}
	return nil
}

// Routers and rules that use headers must see what the server reads.
func (m *Message) agree(header http.Header) error {
	version, err := m.version(header)
	mirrors := version >= headersMirror && m.IsRequest()
	return cmp.Or(dashed(header), atMostOnce(header, "Mcp-Session-Id"), err,
		m.mirrored(header, "Mcp-Method", m.Method, mirrors),
		m.mirrored(header, "Mcp-Name", m.Name, mirrors && m.Name != ""), m.hasArguments(header))
}

func (m *Message) version(header http.Header) (string, error) {
	if err := atMostOnce(header, "Mcp-Protocol-Version"); err != nil {
		return "", err
	}
	version := Versions[len(Versions)-1] // the first revision had no such header
	if said := header["Mcp-Protocol-Version"]; len(said) == 1 {
		version = said[0]
		if err := known(version); err != nil {
			return "", err
		}
	}
	if m.Method == initialize {
		proposed, _ := m.params.Get("protocolVersion").Text()
		return version, known(proposed)
	}
	inBody := m.params.Get("_meta").Members.Get(versionMember)
	own, ok := inBody.Text()
	switch {
	case inBody.Value == nil && version < headersMirror, inBody.Value == nil && !m.IsRequest():
	case m.Method == discover && header["Mcp-Protocol-Version"] == nil: // the old transport has no such header
		return version, known(own)
	case !ok || own != version:
		return "", mismatch("the header Mcp-Protocol-Version differs from the revision in _meta")
	}
	return version, nil
}

func known(version string) error {
	if slices.Contains(Versions, version) || version == oldTransport {
		return nil
	}
	return refusal.New("mcp_version_unsupported", "the revision %.40q of the protocol is not supported; use one of %s",
		version, strings.Join(Versions, ", "))
}

func mismatch(format string, args ...any) error {
	return refusal.New("mcp_header_mismatch", format, args...)
}

func (m *Message) mirrored(header http.Header, name, want string, required bool) error {
	values := header[name]
	if len(values) == 0 && !required {
		return nil
	}
	if len(values) != 1 {
		return mismatch("the header %s occurs %d times", name, len(values))
	}
	if got, ok := decodeHeader(values[0]); !ok || got != want || want == "" {
		return mismatch("the header %s differs from the message", name)
	}
	return nil
}

// A header's value may be Base64 between =?base64? and ?=.
func decodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if !ok || !strings.HasSuffix(encoded, "?=") {
		return value, true
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(encoded, "?="))
	return string(raw), err == nil
}
