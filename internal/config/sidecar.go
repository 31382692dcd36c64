package config

import (
	"time"

	"github.com/actionproof/mediator/internal/config/remote"
	"github.com/actionproof/mediator/proxy/intercept"
	limits "github.com/actionproof/mediator/proxy/load"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Sidecar configures the sidecar: mediator serve.
type Sidecar struct {
	File    `yaml:"-"`
	Process `yaml:",inline"`

	// Runtime is this sidecar's name in evidence, at most 128 bytes with `receipts`. Default: the path of its SPIFFE id
	// (see `tls`), such as pod/agents/1. With `trigger` or `control` over TCP, no other name is possible.
	Runtime string `yaml:"runtime"`
	// Listen is the proxy port's address.
	Listen string `yaml:"listen" need:"yes" is:"listen"`
	// Agents accepts agents in other pods (mediator guard --forward). A pod's certificate identifies its session.
	Agents *Endpoint `yaml:"agents"`
	// Transparent accepts connections that the kernel redirects.
	Transparent *Transparent `yaml:"transparent"`
	// Guard configures kernel rules that let traffic out only through the sidecar. Without these rules, posts are
	// refused.
	Guard *Guard `yaml:"guard"`
	// Admin is the endpoint for operators, out of agents' reach.
	Admin Admin `yaml:"admin" need:"yes"`
	// Console is the address of mediator console, which the sidecar and `guard` block for agents. Default 127.0.0.1:8184.
	Console string `yaml:"console" is:"address"`
	// State is the ledger's folder, for the mediator's user alone.
	State string `yaml:"state" is:"folder" need:"yes"`
	// Ledger stores records of calls and used ids.
	Ledger Store `yaml:"ledger"`
	// Retention keeps records and their evidence this long. Default 2160h.
	Retention Duration `yaml:"retention"`
	// TransparencyLog keeps a log that shows if a post was left out or changed later.
	TransparencyLog *TransparencyLog `yaml:"transparencyLog"`
	// AuditExport copies the records of calls to a file or a collector.
	AuditExport *remote.AuditExport `yaml:"auditExport"`
	// PropagateTraces replaces the agent's traceparent in calls to upstreams by the sidecar's. Needs `tracing`.
	PropagateTraces bool `yaml:"propagateTraces" reload:"yes"`
	// CA configures the certificate authority (CA) for intercepting TLS.
	CA CA `yaml:"ca"`
	// Keys are the signing keys.
	Keys SidecarKeys `yaml:"keys" need:"yes"`
	// Receipts makes the sidecar sign an interaction receipt for each post and each observed model call. Rules with
	// `observe` require it.
	Receipts *Receipts `yaml:"receipts"`
	// Reputation is the node's endpoint. Needs `receipts`.
	Reputation *Node `yaml:"reputation"`
	// Audience is the aud claim of the sidecar's evidence.
	Audience string `yaml:"audience" need:"yes"`
	// Manifest is the file of the deployment manifest.
	Manifest string `yaml:"manifest" is:"public" reload:"yes" need:"yes"`
	// Trigger is the trigger service's endpoint.
	Trigger Peer `yaml:"trigger" need:"yes"`
	// Control is the control plane's endpoint.
	Control Peer `yaml:"control" need:"yes"`
	// Gate configures the mediator's own gate, for APIs that do not verify evidence.
	Gate Gate `yaml:"gate"`
	// Session configures agents' sessions.
	Session Session `yaml:"session"`
	// Actions are the rules for posts: calls that need the whole chain of evidence.
	Actions []Action `yaml:"actions" reload:"yes"`
	// Egress are the rules for calls that need no evidence. A rule is your word that its calls, even GETs, change
	// nothing upstream. Calls without a rule are refused.
	Egress []Egress `yaml:"egress" reload:"yes"`
	// Deny lists URLs, such as https://*.example.org/**. Calls to them are refused (call_denied) even if a rule allows
	// them, and logged only at level debug.
	Deny []string `yaml:"deny" reload:"yes"`
	// Upstreams are settings for single hosts.
	Upstreams []Upstream `yaml:"upstreams" reload:"yes"`
	// UpstreamProxy is a proxy through which calls reach their hosts (operations/upstream-proxy.md).
	UpstreamProxy *remote.UpstreamProxy `yaml:"upstreamProxy" reload:"yes"`
	// WebSocketRefusal is answer (403 with the reason) or close, after which some clients go on without a WebSocket.
	WebSocketRefusal string `yaml:"websocketRefusal" reload:"yes" one:"answer close"`
	// Timeouts bound the waits of a call.
	Timeouts Timeouts `yaml:"timeouts"`
	// Limits bound the load; parentheses name a refusal's code. A refused call was not sent, and uses up no event.
	// Sessions get equal parts of a shared limit, and one part stays free: a single session gets half, two get a third
	// each.
	Limits Limits `yaml:"limits"`

	// What the checks have made of the keys above. The actions lack their gates, and the rules their credentials.
	ActionRules   []rules.Action  `yaml:"-"`
	EgressRules   []rules.Egress  `yaml:"-"`
	Denied        *match.Denied   `yaml:"-"`
	UpstreamHosts []upstream.Host `yaml:"-"`
	Warnings      []Warning       `yaml:"-"` // do not stop the process
}

// Transparent configures the transparent listener. Redirected connections belong to the pod's standing session.
type Transparent struct {
	// Listen is the IPv4 host:port that receives redirected connections. With `guard`, use the host 127.0.0.1 or
	// 0.0.0.0.
	Listen string `yaml:"listen" need:"yes" is:"listen"`
	// AnyAddress ignores the address that an agent dialled. Default: the call's host name must resolve to it.
	AnyAddress bool `yaml:"anyAddress"`
}

// Guard says which users may leave the pod, and what other users may reach besides the proxy.
type Guard struct {
	// UIDs are the mediator's users, never root. Only their connections may leave the pod.
	UIDs []uint32 `yaml:"uids" need:"yes"`
	// Resolvers are the IPv4 addresses of DNS servers that every process may query. Queries can carry data out.
	Resolvers []string `yaml:"resolvers"`
	// Loopback lists the ports on loopback that every process may reach, such as 3000 or 8000-8099.
	Loopback []string `yaml:"loopback"`
	// Inbound lists the mediator's TCP ports that may be reached from outside, such as a webhook port.
	Inbound []uint16 `yaml:"inbound"`
	// Devices are the network devices on which packet sockets are blocked too. Default: all but loopback. Before Linux
	// 5.16, write [none].
	Devices []string `yaml:"devices"`
}

type CA struct {
	// Dir is the folder made by mediator ca init. Default: each start makes a new CA in memory.
	Dir string `yaml:"dir" is:"secret"`
	// CertificateFile receives the CA's certificate, for agents to trust. Default: ca.pem in `state`.
	CertificateFile string `yaml:"certificateFile" is:"path"`
	// Permit lists more names that the CA may certify, so that a reload can add rules for them: IP addresses, and hosts
	// with their subdomains.
	Permit []string `yaml:"permit"`
	// Unconstrained omits name constraints. Default: the CA is valid only for the hosts of rules and of `permit`.
	Unconstrained bool `yaml:"unconstrained"`
}

type Gate struct {
	// Issuer is the iss claim of the gate's challenge tokens and capabilities. Default mediator-gate.
	Issuer string `yaml:"issuer"`
	// SecretFile holds the gate's secret of at least 32 bytes. Default: a random secret in memory.
	SecretFile string `yaml:"secretFile" is:"secret" least:"32"`
	// Difficulty is how hard the gate's challenges are: lite, standard or gauntlet.
	Difficulty string `yaml:"difficulty" one:"standard lite gauntlet"`

	// Secret is what SecretFile holds; empty for a secret in memory.
	Secret string `yaml:"-" of:"secretFile"`
}

type Session struct {
	// Standing gives each pod one session, without proxy credentials. A new one begins when the agent gets its next
	// event from http://mediator.internal/v1/event/next. Default: mediator run opens a session for each agent.
	Standing bool `yaml:"standing"`
	// Learning lets operators open learning sessions (mediator run --learn), which may read from every public host.
	Learning bool `yaml:"learning"`
	// Access declares how humans can reach the run. Session receipts state it. A strict policy refuses any true value.
	Access Access `yaml:"access" reload:"yes"`
}

// Access declares who can reach the agent's run.
type Access struct {
	// HumanPrompt: a human can prompt the agent.
	HumanPrompt bool `yaml:"humanPrompt"`
	// HumanOperator: a human operates the run.
	HumanOperator bool `yaml:"humanOperator"`
	// UserShell: users have a shell in the run.
	UserShell bool `yaml:"userShell"`
	// UserEnvironment: users can reach the agent's environment.
	UserEnvironment bool `yaml:"userEnvironment"`
}

// Match says which calls a rule is for.
type Match struct {
	// URL is scheme, host and path, such as https://api.example.com/posts/{id}; {id} matches any one segment. In egress
	// rules, a final ** matches further segments, and *. before the host matches subdomains.
	URL string `yaml:"url" need:"yes"`
	// Methods are HTTP methods: exactly one for an action. Required, except with `mcp` or `graphql`, which imply them.
	Methods []string `yaml:"methods"`
	// MCP makes this a rule for MCP messages (Streamable HTTP). Among rules for one URL, a message belongs to the one
	// that names its tool or method.
	MCP *MCP `yaml:"mcp"`
	// GraphQL makes this a rule for GraphQL documents. Among rules for one URL, a document, even one sent by GET,
	// belongs to the one that names all of its operations and fields.
	GraphQL *GraphQL `yaml:"graphql"`
}

// GraphQL names operations of GraphQL documents.
type GraphQL struct {
	// Type is mutation in an action and query in an egress rule.
	Type string `yaml:"type" need:"yes"`
	// Fields are the allowed top-level fields, by name, not alias. __typename is always allowed. Required in an action.
	// Default: all fields, introspection (__schema) included.
	Fields []string `yaml:"fields"`
}

// MCP names messages of the Model Context Protocol.
type MCP struct {
	// Tools are the allowed tools, by exact name. Required in an action.
	Tools []string `yaml:"tools"`
	// Methods are the MCP methods that an egress rule allows, including notifications. They cannot include tools/call.
	// Default: those for sessions, lists and reads.
	Methods []string `yaml:"methods"`
	// List is allowed (the agent sees only tools in rules) or all. Only in the egress rule for tools/list.
	List string `yaml:"list" one:"allowed all"`
	// Elicitation lets a human answer the server's questions; the session cannot post afterwards. Only in egress rules.
	Elicitation bool `yaml:"elicitation"`
	// Sampling lets a model answer the server's questions. Only in egress rules.
	Sampling bool `yaml:"sampling"`
	// Pin maps a tool to the SHA-256 of its definition (canonical JSON, lowercase hex), which the server must have
	// listed in the session before a call. Default: changes are only recorded.
	Pin map[string]string `yaml:"pin"`
	// SameConnection is your word that the server answers a call on the connection that carried it. Without it, clients
	// that use MCP revision 2024-11-05 or do not accept event streams cannot post. Only in actions.
	SameConnection bool `yaml:"sameConnection"`
}

// Action is one kind of call that posts.
type Action struct {
	Rule `yaml:",inline"`
	// Subject is the agent that posts.
	Subject string `yaml:"subject" need:"yes"`
	// Action names the operation, such as create_post.
	Action string `yaml:"action" need:"yes"`
	// Content is how the body is hashed and sent: json (canonicalised by RFC 8785) or raw (the bytes: forms, uploads).
	Content string `yaml:"content" one:"json raw"`
	// MaxBody is the largest body in bytes. Default 1048576. At most 33554432, or 8388608 for JSON.
	MaxBody int64 `yaml:"maxBody"`
	// Query allows a query string. Evidence and records keep it, with any secret in it.
	Query bool `yaml:"query"`
	// Headers are the agent's headers that may pass, besides common ones such as Accept; a call with another is refused.
	// Evidence covers no headers, though they can change what a post does. [] allows only common ones. Default: all.
	Headers []string `yaml:"headers"`
	// Gate is the gate that verifies the evidence: local (the mediator's own) or api (the API's).
	Gate string `yaml:"gate" one:"local api"`
	// API locates the API's own gate; only with `gate: api`.
	API *API `yaml:"api"`
	// Solver solves the challenge: runtime (the mediator) or agent.
	Solver string `yaml:"solver" one:"runtime agent"`
}

// API says where an API that takes part answers.
type API struct {
	// Challenge is the URL that issues challenges.
	Challenge string `yaml:"challenge" need:"yes" is:"server"`
	// Verify is the URL that verifies envelopes and mints capabilities.
	Verify string `yaml:"verify" need:"yes" is:"server"`
	// AnswerKeys is a PEM file of the Ed25519 public keys that verify the API's answers. Unverified answers are not
	// relayed. Default: the outcome is the mediator's word.
	AnswerKeys string `yaml:"answerKeys" is:"public"`
}

// Egress is one kind of call that is not a post.
type Egress struct {
	Rule `yaml:",inline"`
	// Observe is the API of the models whose calls the sidecar inspects: openai-chat, openai-responses,
	// openai-embeddings, openai-completions, anthropic-messages (also at Vertex AI and Bedrock's Invoke), gemini,
	// bedrock-converse or ollama-chat. POST only.
	Observe string `yaml:"observe"`
	// HostedTools lists what the model's provider may do out of the sidecar's sight: its tools (web_search, mcp), and
	// request members that start such work (background, mcp_servers). remote_content allows fetching URLs in a request;
	// online allows models that search the web. previous_response_id, conversation, thread, item_reference, reasoning,
	// file_id, cachedContent and prompt allow content from outside the session.
	HostedTools []string `yaml:"hostedTools"`
	// UnknownMembers is refuse or allow, for requests with unknown members. Record and receipt name them. Default
	// refuse.
	UnknownMembers string `yaml:"unknownMembers"`
	// Generate offers the rule's models at http://mediator.internal/v1/generate. The rule needs `observe`, and a URL
	// without placeholders.
	Generate *Generate `yaml:"generate"`
	// WebSocket allows WebSockets too; `methods` must include GET. Messages are not inspected: an agent can post in
	// them. A WebSocket ends with its session, or after five minutes without traffic.
	WebSocket bool `yaml:"websocket"`
}

// Generate says which models agents can ask the mediator for.
type Generate struct {
	// Models are the offered models; two rules cannot offer the same one. The first rule's first model is the default.
	Models []string `yaml:"models" need:"yes"`
	// MaxTokens is the most tokens that an agent may request, and the number it gets by default. Default 1024.
	MaxTokens int `yaml:"maxTokens"`
}

// Upstream holds the settings of one host that differ from the defaults.
type Upstream struct {
	// Host is a host:port.
	Host string `yaml:"host" need:"yes"`
	// Address is the IP address to dial, public or in `networks`, with or without a port. Default: the host name is
	// resolved.
	Address string `yaml:"address"`
	// Networks are non-public address ranges in which the host may be.
	Networks []string `yaml:"networks"`
	// CA is a PEM file of authorities for the host's certificate, besides the system's.
	CA string `yaml:"ca" is:"public"`
}

type Timeouts struct {
	// Step bounds each step before a post is sent, and the arrival of the post's body. Default 10s.
	Step Duration `yaml:"step" reload:"yes"`
	// Forward bounds a post from its first byte to the end of its answer, how long a call outlives its session, and the
	// wait for each part of a streamed request. Default 60s.
	Forward Duration `yaml:"forward" reload:"yes"`
	// ResponseHeader bounds the wait for an answer's headers. Default 10m: models can be slow.
	ResponseHeader Duration `yaml:"responseHeader" reload:"yes"`
	// Shutdown bounds the wait for calls when the process ends. Default 20s.
	Shutdown Duration `yaml:"shutdown"`
}

// Limits bounds what the sidecar takes on.
type Limits struct {
	// Calls bounds the calls in progress, waiting ones included (overloaded). Default 1024.
	Calls int `yaml:"calls" reload:"yes"`
	// Session bounds each session's rate of calls and CONNECTs (rate_limited). Default 1000 per second.
	Session Rate `yaml:"session" reload:"yes"`
	// Host bounds the rate of all sessions' calls to each host and port (rate_limited). Default 2000 per second.
	Host Rate `yaml:"host" reload:"yes"`
	// Breaker suspends calls to a host and port (upstream_suspended) after failures: no answer, or status 502, 503 or
	// 504.
	Breaker Breaker `yaml:"breaker" reload:"yes"`
	// Connections bounds agents' connections to each shared listener, and HTTP/2 requests in progress. A new connection
	// replaces an idle one. Isolated agents' listeners together have a second bound of this size, and each has a sixteenth
	// of it. Default 4096.
	Connections int `yaml:"connections"`
	// Tunnels bounds the open CONNECT tunnels (overloaded). Default 2048.
	Tunnels int `yaml:"tunnels"`
}

type Rate struct {
	// PerSecond is the average rate, from 0.001 to 1000000.
	PerSecond float64 `yaml:"perSecond"`
	// Burst is the number of calls that may come at once. Default: two seconds' worth, at least 1.
	Burst int `yaml:"burst"`
}

// Breaker says when calls to a host are suspended.
type Breaker struct {
	// Failures is the number of failures in a row that suspends a session's calls; that many failing sessions in a row
	// suspend all calls. Default 10.
	Failures int `yaml:"failures"`
	// Pause is the length of a suspension. Afterwards each session tries one call at a time. Default 15s.
	Pause Duration `yaml:"pause"`
}

// Load returns the limits that the pipeline applies.
func (c Limits) Load() limits.Limits {
	return limits.Limits{
		Calls: c.Calls, Session: limits.Rate(c.Session), Host: limits.Rate(c.Host),
		Breaker: upstream.Breaker{Failures: c.Breaker.Failures, Pause: time.Duration(c.Breaker.Pause)},
	}
}

// Listeners returns the limits that the listeners apply.
func (c Limits) Listeners() intercept.Limits {
	return intercept.Limits{Connections: c.Connections, Tunnels: c.Tunnels}
}
