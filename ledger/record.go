package ledger

import "time"

// State is how a call ended.
type State string

const (
	StateRefused       State = "refused"       // nothing was sent
	StateForwarding    State = "forwarding"    // the intent is durable; the outcome is not yet known
	StateForwarded     State = "forwarded"     // the upstream answered
	StateFailed        State = "failed"        // nothing was sent: the upstream could not be reached
	StateIndeterminate State = "indeterminate" // it may have been sent
)

// States are all states, for the checks of queries.
var States = [...]State{StateRefused, StateForwarding, StateForwarded, StateFailed, StateIndeterminate}

// Outcome reports whether s is an outcome of a post that had begun.
func (s State) Outcome() bool {
	return s == StateForwarded || s == StateFailed || s == StateIndeterminate
}

// Whole reports whether s is the state of a record added at once, because the call is over.
func (s State) Whole() bool { return s == StateRefused || s.Outcome() }

// Record is one call: what was asked, what became of it, and a post's evidence.
type Record struct {
	ID       string `json:"id"`
	Flow     string `json:"flow"`
	State    State  `json:"state"`
	Session  string `json:"session,omitempty"`
	Event    string `json:"event,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Action   string `json:"action,omitempty"`
	Resource string `json:"resource,omitempty"`
	Method   string `json:"method,omitempty"`
	Host     string `json:"host,omitempty"` // always with the port
	Path     string `json:"path,omitempty"` // without the query
	Scheme   string `json:"scheme,omitempty"`
	// Via is the way to the host, where there is an upstream proxy: direct, proxy, or resolving-proxy if the proxy also
	// resolved the host's name.
	Via string `json:"via,omitempty"`
	// names of the query's parameters, sorted: only those that look like names
	QueryNames []string `json:"queryNames,omitempty"`
	// Carries is [WebSocket] if the call asks for one, or else its body's media type if that is not JSON's.
	Carries string `json:"carries,omitempty"`
	// what the call's message asks for, if it was read as one of these protocols
	MCP     *MCPMessage `json:"mcp,omitempty"`
	GraphQL []Operation `json:"graphql,omitempty"`
	// the call belongs to a learning session, which posts nothing
	Learning bool `json:"learning,omitempty"`
	// Unfit is the code of the session's first refused address, repeated credential or broken message, up to this call.
	// No rule must be learnt from such a session.
	Unfit string `json:"unfit,omitempty"`
	// what the call's message does, if its rule is about messages
	Message      string     `json:"message,omitempty"`
	Result       string     `json:"result,omitempty"`       // what came of it, according to the server's answer
	Tools        []Tool     `json:"tools,omitempty"`        // that an MCP server listed, up to a bound
	Model        *ModelCall `json:"model,omitempty"`        // what was seen of a model call
	Interactions *Standing  `json:"interactions,omitempty"` // the session's chain of receipts at the post
	ContentHash  string     `json:"contentHash,omitempty"`
	BindingHash  string     `json:"bindingHash,omitempty"`
	CapabilityID string     `json:"capabilityId,omitempty"`
	Started      time.Time  `json:"started"`
	Finished     time.Time  `json:"finished,omitzero"`
	Manifest     string     `json:"manifest,omitempty"` // hash of the deployment manifest that judged the call
	Code         string     `json:"code,omitempty"`     // of a refusal or failure
	Step         string     `json:"step,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	Status       int        `json:"status,omitempty"` // of the upstream
	Answer       *Answer    `json:"answer,omitempty"` // makes the outcome the API's own word; nil: the mediator's
	BytesOut     int64      `json:"bytesOut,omitempty"`
	BytesIn      int64      `json:"bytesIn,omitempty"`
	Artifacts    []Artifact `json:"artifacts,omitempty"`
	Checks       []Check    `json:"checks,omitempty"`
	Steps        []Step     `json:"steps,omitempty"`

	// Keys are the keys that signed the artifacts, in a list with Query.Keys.
	Keys []string `json:"keys,omitempty"`

	// Open is stored with the intent of a post that needs a receipt. It is not part of the record.
	Open []OpenCall `json:"-"`
}

// WebSocket is what a call carries that asks for one: see [Record.Carries].
const WebSocket = "websocket"

// Answer is an API's signature on its answer (RFC 9421). Base names what it covers: the answer's status and the hash of
// its body, and the request's method, URL, content hash and capability.
type Answer struct {
	Base      string `json:"base"`
	Signature []byte `json:"signature"`
	KeyID     string `json:"keyId"`     // thumbprint of PublicKey
	PublicKey []byte `json:"publicKey"` // Ed25519, as the sidecar's rule names it
}

// Word says whose word the outcome of a post is.
func (r Record) Word() string {
	if r.Answer == nil {
		return "the mediator's word"
	}
	return "the word of the API with the key " + r.Answer.KeyID
}

// Artifact is one signed token of a post's evidence.
type Artifact struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

// MCPMessage is a client's message to an MCP server.
type MCPMessage struct {
	Method string `json:"method,omitempty"` // empty for an answer to the server, its event stream, or a session's end
	Tool   string `json:"tool,omitempty"`   // of tools/call; quoted if no rule can name it
}

// Operation is one operation of a GraphQL document.
type Operation struct {
	Type   string   `json:"type"`   // query, mutation or subscription
	Fields []string `json:"fields"` // top-level, by name and not by alias, up to 32
}

// Tool is one tool that an MCP server listed.
type Tool struct {
	Name string `json:"name"`
	Hash string `json:"hash,omitempty"` // of its definition, as a rule pins it
	// no rule names it
	Unnamed bool `json:"unnamed,omitempty"`
}

// Check is one verification; Code and Detail say why it failed.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Step is one step of the call with its duration.
type Step struct {
	Name   string `json:"name"`
	Micros int64  `json:"micros"`
}
