package config

import (
	"time"

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

	// Runtime is this sidecar's name in attestations and receipts; with receipts, it has at most 128 bytes. Default: the
	// path of the SPIFFE id in tls, such as pod/agents/1. Over TCP, it must be this path.
	Runtime string `yaml:"runtime"`
	// Listen is the proxy port's address, for HTTP_PROXY and HTTPS_PROXY.
	Listen string `yaml:"listen" need:"yes" is:"address"`
	// Agents accepts agents' pods (mediator guard --forward). A pod's certificate identifies its session.
	Agents *Endpoint `yaml:"agents"`
	// Transparent accepts connections that the kernel redirects, for agents that ignore proxy variables.
	Transparent *Transparent `yaml:"transparent"`
	// Guard configures kernel rules: traffic leaves only through the sidecar. Without them, posts are refused.
	Guard *Guard `yaml:"guard"`
	// Admin is the operators' endpoint, out of the agent's reach.
	Admin Endpoint `yaml:"admin" need:"yes"`
	// State is the folder of the ledger. It must exist and belong to the mediator's user alone.
	State string `yaml:"state" is:"path" need:"yes"`
	// Ledger stores records, and the ids of tokens that were used.
	Ledger Store `yaml:"ledger"`
	// Retention is how long a record and its evidence are kept. Default 2160h.
	Retention Duration `yaml:"retention"`
	// CA is the certificate authority that intercepts TLS.
	CA CA `yaml:"ca"`
	// Keys are the signing keys.
	Keys SidecarKeys `yaml:"keys" need:"yes"`
	// Receipts makes the sidecar sign a receipt for each observed model call and each post, in one chain per session.
	// It needs keys.interactionReceipt; rules with observe need receipts.
	Receipts *Receipts `yaml:"receipts"`
	// Reputation is the node's endpoint, for receipts and for the agent's requests. It needs receipts.
	Reputation *Node `yaml:"reputation"`
	// Audience is the aud of the sidecar's signatures.
	Audience string `yaml:"audience" need:"yes"`
	// Manifest is the path of the deployment manifest.
	Manifest string `yaml:"manifest" is:"path" reload:"yes" need:"yes"`
	// Trigger is the trigger service's endpoint.
	Trigger Peer `yaml:"trigger" need:"yes"`
	// Control is the control plane's endpoint.
	Control Peer `yaml:"control" need:"yes"`
	// Gate configures the mediator's own gate, for APIs that do not take part.
	Gate Gate `yaml:"gate"`
	// Session configures agents' sessions.
	Session Session `yaml:"session"`
	// Actions are the rules for posts, which need the whole chain of evidence.
	Actions []Action `yaml:"actions" reload:"yes"`
	// Egress are the rules for calls that need no evidence. A rule is your word that such calls, even a GET, change
	// nothing upstream. All other calls are denied.
	Egress []Egress `yaml:"egress" reload:"yes"`
	// Deny lists URLs, such as https://*.example.org/**. Calls to them are refused (call_denied) despite any rule, and
	// recorded, but not logged or printed.
	Deny []string `yaml:"deny" reload:"yes"`
	// Upstreams are settings of single hosts.
	Upstreams []Upstream `yaml:"upstreams" reload:"yes"`
	// WebSocketRefusal of a WebSocket without a rule: answer (403 with the reason) or close (some clients then continue
	// without one).
	WebSocketRefusal string `yaml:"websocketRefusal" reload:"yes" one:"answer close"`
	// Timeouts bound the waits of a call.
	Timeouts Timeouts `yaml:"timeouts"`
	// Limits bound the load. A call over a limit is refused with Retry-After before anything is sent or consumed. A
	// session must leave as much of a shared limit free as it uses: at most half of it.
	Limits Limits `yaml:"limits"`

	// What the checks have made of the keys above. The actions lack their gates, and the rules their credentials.
	LedgerDSN     string          `yaml:"-" of:"ledger.postgres.dsnFile"` // empty if the ledger is a file
	GateSecret    string          `yaml:"-" of:"gate.secretFile"`         // empty for a secret in memory
	ActionRules   []rules.Action  `yaml:"-"`
	EgressRules   []rules.Egress  `yaml:"-"`
	Denied        *match.Denied   `yaml:"-"`
	UpstreamHosts []upstream.Host `yaml:"-"`
	Warnings      []Warning       `yaml:"-"` // do not stop the process
}

// Transparent configures the transparent listener. Redirected connections belong to the pod's standing session.
type Transparent struct {
	// Listen is the IPv4 address that receives redirected connections; with mediator guard, on loopback.
	Listen string `yaml:"listen" need:"yes"`
	// AnyAddress ignores a connection's destination address: the sidecar resolves an allowed host name itself. Default:
	// the name must resolve to the destination address.
	AnyAddress bool `yaml:"anyAddress"`
}

// Guard says which users may leave the pod, and what other users may reach besides the proxy.
type Guard struct {
	// UIDs are the users whose connections may leave the pod: those of the mediator's processes, never root.
	UIDs []uint32 `yaml:"uids" need:"yes"`
	// Resolvers are the IPv4 addresses of DNS servers for every process (port 53). Queries can carry data out.
	Resolvers []string `yaml:"resolvers"`
	// Loopback are ports, such as 3000 or 8000-8099, that other processes may use on loopback.
	Loopback []string `yaml:"loopback"`
	// Inbound are the mediator's TCP ports that outsiders may reach, such as a webhook port.
	Inbound []uint16 `yaml:"inbound"`
	// Devices are the network devices on which packet sockets are blocked too (Linux 5.16). Default: all present ones.
	// Write [none] on an older kernel.
	Devices []string `yaml:"devices"`
}

// CA configures the interception CA.
type CA struct {
	// Dir is the folder made by mediator ca init. Default: a new CA in memory.
	Dir string `yaml:"dir" is:"path"`
	// CertificateFile receives the CA's certificate, for agents to trust. Default ca.pem in the state folder.
	CertificateFile string `yaml:"certificateFile" is:"path"`
	// Permit are further hosts or IP addresses that the CA may certify, so that a reload can add rules for them. A name
	// permits its subdomains too.
	Permit []string `yaml:"permit"`
	// Unconstrained omits the CA's name constraints. Default: it is valid only for the hosts of rules and permit.
	Unconstrained bool `yaml:"unconstrained"`
}

// Gate configures the mediator's own gate.
type Gate struct {
	// Issuer is the iss of the gate's challenge tokens and capabilities. Default mediator-gate.
	Issuer string `yaml:"issuer"`
	// SecretFile holds the gate's secret, at least 32 bytes. Default: a random one in memory.
	SecretFile string `yaml:"secretFile" is:"path"`
	// Difficulty of its challenges: lite, standard or gauntlet.
	Difficulty string `yaml:"difficulty" one:"standard lite gauntlet"`
}

// Session configures agents' sessions.
type Session struct {
	// Standing makes all calls of the pod one session, without proxy credentials. The next event begins another. The agent
	// waits for events at http://mediator.internal/v1/event/next. Default: mediator run gives each agent a way in.
	Standing bool `yaml:"standing"`
	// Learning lets operators open learning sessions (mediator run --learn), which may read from every public host.
	Learning bool `yaml:"learning"`
	// Access declares who can reach the agent's run, for receipts. A strict policy refuses any true value.
	Access Access `yaml:"access" reload:"yes"`
}

// Access declares who can reach the agent's run.
type Access struct {
	// HumanPrompt declares that a human can prompt the agent.
	HumanPrompt bool `yaml:"humanPrompt"`
	// HumanOperator declares that a human operates the run.
	HumanOperator bool `yaml:"humanOperator"`
	// UserShell declares that users have a shell in the run.
	UserShell bool `yaml:"userShell"`
	// UserEnvironment declares that users can reach the agent's environment.
	UserEnvironment bool `yaml:"userEnvironment"`
}

// Match says which calls a rule is for.
type Match struct {
	// URL is scheme, host and path, such as https://api.example.com/posts/{id}; {id} matches one segment. In egress
	// rules, a final ** matches any further segments, and a leading *. matches subdomains.
	URL string `yaml:"url" need:"yes"`
	// Methods of HTTP: exactly one for an action. Required, except with mcp or graphql, which imply them.
	Methods []string `yaml:"methods"`
	// MCP applies the rule to MCP messages (Streamable HTTP). Rules can share a URL: a message belongs to the rule that
	// names its tool or method, and is refused without one.
	MCP *MCP `yaml:"mcp"`
	// GraphQL applies the rule to GraphQL documents. Rules can share a URL: a document, even one sent by GET, belongs
	// to the rule that names everything it could do, and is refused without one.
	GraphQL *GraphQL `yaml:"graphql"`
}

// GraphQL names operations of GraphQL documents.
type GraphQL struct {
	// Type is mutation in an action and query in an egress rule.
	Type string `yaml:"type" need:"yes"`
	// Fields are the allowed top-level fields, by name, not alias. __typename is always allowed. Required for an
	// action. Default: every field, introspection (__schema) included.
	Fields []string `yaml:"fields"`
}

// MCP names messages of the Model Context Protocol.
type MCP struct {
	// Tools allowed, by exact name. Required for an action.
	Tools []string `yaml:"tools"`
	// Methods are further methods that an egress rule allows, notifications included. Default: those of sessions, lists
	// and reads.
	Methods []string `yaml:"methods"`
	// List says which of the server's tools the agent sees: allowed (by rules) or all. Records name all. Only in the
	// egress rule of tools/list.
	List string `yaml:"list" one:"allowed all"`
	// Elicitation lets a human's answers pass to the server, after which the session cannot post. Only in egress rules.
	Elicitation bool `yaml:"elicitation"`
	// Sampling lets a model's answers pass to the server. Only in egress rules.
	Sampling bool `yaml:"sampling"`
	// Pin maps a tool to the SHA-256 of its definition (canonical JSON, lowercase hex). A tool defined otherwise, or
	// not yet listed by the session, is not called. Default: changes are only recorded.
	Pin map[string]string `yaml:"pin"`
	// SameConnection is your word that the server answers a call on the connection of this call. It allows posts by
	// clients that use revision 2024-11-05, or do not accept both JSON and event streams. Only in actions.
	SameConnection bool `yaml:"sameConnection"`
}

// Credential is a secret that the mediator puts into calls. An answer that repeats it to the agent is cut off.
type Credential struct {
	// Header carries the secret. Default Authorization.
	Header string `yaml:"header"`
	// Prefix precedes the secret, such as "Bearer ". The sidecar searches answers for the secret without it.
	Prefix string `yaml:"prefix"`
	// BasicSecret is the part of a Basic credential to search for: password, user, both or auto (the password, but the
	// user if the password is short, x-oauth-basic or api_token).
	BasicSecret string `yaml:"basicSecret" one:"auto password user both"`
	// File holds the secret, at least 8 bytes; a final line end is ignored. Reread after a 401. Either file or vault.
	File string `yaml:"file" is:"path"`
	// Vault reads the secret from custody's Vault, by the role api_credential. Reread after a minute at the latest,
	// earlier if its lease ends before that, and after a 401.
	Vault *VaultSecret `yaml:"vault"`
}

// VaultSecret names a secret in Vault.
type VaultSecret struct {
	// Path is the argument of vault read, such as kv/data/github (KV version 2) or github/token (a temporary secret).
	// {rule} is the name of the rule.
	Path string `yaml:"path" need:"yes"`
	// Field of the secret.
	Field string `yaml:"field" need:"yes"`
}

// Action is one kind of call that posts.
type Action struct {
	// Name appears in records and metrics.
	Name string `yaml:"name" need:"yes"`
	// Match selects the calls.
	Match Match `yaml:"match" need:"yes"`
	// Subject is the agent that posts.
	Subject string `yaml:"subject" need:"yes"`
	// Action names the operation, such as create_post.
	Action string `yaml:"action" need:"yes"`
	// Content is json (canonicalised by RFC 8785) or raw (the bytes: forms, multipart, uploads).
	Content string `yaml:"content" one:"json raw"`
	// MaxBody in bytes. Default 1048576. At most 33554432, or 8388608 for JSON.
	MaxBody int64 `yaml:"maxBody"`
	// Query allows a query string. Evidence and records keep it, with any secret in it.
	Query bool `yaml:"query"`
	// Headers are the agent's headers that may pass, besides common ones such as Accept. A call with another is
	// refused. Evidence covers no header, though one can change what a post does. [] allows none. Default: all.
	Headers []string `yaml:"headers"`
	// Credential replaces the agent's own credential.
	Credential *Credential `yaml:"credential"`
	// Gate is local (the mediator's own gate) or api (the API takes part).
	Gate string `yaml:"gate" one:"local api"`
	// API locates an API that takes part; only with gate: api.
	API *API `yaml:"api"`
	// Solver solves the challenge: runtime (the mediator) or agent.
	Solver string `yaml:"solver" one:"runtime agent"`
}

// API says where an API that takes part answers.
type API struct {
	// Challenge is the URL that issues challenges.
	Challenge string `yaml:"challenge" need:"yes"`
	// Verify is the URL that verifies envelopes and mints capabilities.
	Verify string `yaml:"verify" need:"yes"`
}

// Egress is one kind of call that is not a post.
type Egress struct {
	// Name appears in records and metrics.
	Name string `yaml:"name" need:"yes"`
	// Match selects the calls.
	Match Match `yaml:"match" need:"yes"`
	// Credential replaces the agent's own credential. Default: the agent's headers pass.
	Credential *Credential `yaml:"credential"`
	// Observe inspects calls to a model with this API: openai-chat, openai-responses, openai-embeddings,
	// openai-completions, anthropic-messages (also at Vertex AI and Bedrock's Invoke), gemini, bedrock-converse or
	// ollama-chat. The sidecar checks each request, and records names, figures and times. POST only.
	Observe string `yaml:"observe"`
	// HostedTools lists what the model's provider may do out of the sidecar's sight. Entries are names of its tools
	// (web_search, mcp), names of request members that start such work (background, mcp_servers), remote_content (it
	// fetches URLs in a request) and online (models that search the web by themselves). With the entry
	// previous_response_id, conversation, thread, item_reference, file_id, cachedContent or prompt, a request's member of
	// this name may refer to content from outside the session.
	HostedTools []string `yaml:"hostedTools"`
	// UnknownMembers says what to do with unknown members of a request: refuse, or allow (record and receipt then name
	// them). Default: refuse.
	UnknownMembers string `yaml:"unknownMembers"`
	// Generate offers the models of an observed rule at http://mediator.internal/v1/generate. The rule's URL must have no
	// {name}.
	Generate *Generate `yaml:"generate"`
	// WebSocket allows WebSockets too; the rule must name GET. Their messages are not inspected: an agent can post by
	// them. They end with the session or after five minutes without traffic.
	WebSocket bool `yaml:"websocket"`
}

// Upstream holds the settings of one host that differ from the defaults.
type Upstream struct {
	// Host is a host:port.
	Host string `yaml:"host" need:"yes"`
	// Address is the IP address to dial, public or in networks, with or without a port. Default: the name is resolved.
	Address string `yaml:"address"`
	// Networks are further, non-public address ranges for the name.
	Networks []string `yaml:"networks"`
	// CA is a PEM file of authorities for the host's certificate, besides the system's.
	CA string `yaml:"ca" is:"path"`
}

// Timeouts bounds the waits of a call.
type Timeouts struct {
	// Step bounds each step before a post is sent, and the wait for its body. Default 10s.
	Step Duration `yaml:"step" reload:"yes"`
	// Forward bounds three waits: for a post, from its first byte to the end of its answer; for a call after its session
	// has ended; and for each part of a streamed body. Default 60s.
	Forward Duration `yaml:"forward" reload:"yes"`
	// ResponseHeader bounds the wait for response headers. Default 10m, for slow inference.
	ResponseHeader Duration `yaml:"responseHeader" reload:"yes"`
	// Shutdown bounds the wait for calls when the process ends. Default 20s.
	Shutdown Duration `yaml:"shutdown"`
}

// Limits bounds what the sidecar takes on.
type Limits struct {
	// Calls bounds the calls in flight, waiting ones included (overloaded). Default 1024.
	Calls int `yaml:"calls" reload:"yes"`
	// Session bounds the calls and CONNECTs of each session (rate_limited). Default 1000 per second.
	Session Rate `yaml:"session" reload:"yes"`
	// Host bounds all sessions' calls a second to each host and port; a session gets half. Default 2000.
	Host Rate `yaml:"host" reload:"yes"`
	// Breaker suspends calls to a host and port that fails (upstream_suspended): no answer, or status 502, 503 or 504.
	Breaker Breaker `yaml:"breaker" reload:"yes"`
	// Connections bounds agents' connections, and HTTP/2 requests in progress. At the bound, a new one replaces an idle
	// one. Agents with their own listener share a second bound of this size; each gets a sixteenth of it. Default 4096.
	Connections int `yaml:"connections"`
	// Tunnels bounds the tunnels among these connections (overloaded). Default 2048.
	Tunnels int `yaml:"tunnels"`
}

// Rate is a rate of calls.
type Rate struct {
	// PerSecond is from 0.001 to 1000000.
	PerSecond float64 `yaml:"perSecond"`
	// Burst is the number of calls allowed at once. Default: as many as two seconds of perSecond allow, at least 1.
	Burst int `yaml:"burst"`
}

// Breaker says when calls to a host are suspended.
type Breaker struct {
	// Failures is how many failures in a row suspend a session's calls, and how many failing sessions suspend
	// everyone's. Default 10.
	Failures int `yaml:"failures"`
	// Pause is how long a suspension lasts. Each session then tries one call at a time until one is answered. Default 15s.
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
