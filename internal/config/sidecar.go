package config

import (
	"time"

	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Sidecar configures the sidecar: mediator serve.
type Sidecar struct {
	File `yaml:"-"`

	// Runtime names this runtime in attestations and receipts; where receipts are made, in at most 128 bytes. Required.
	Runtime string `yaml:"runtime"`
	// Listen is the address of the proxy port, which agents use as HTTP_PROXY and HTTPS_PROXY. Required.
	Listen string `yaml:"listen"`
	// Transparent takes connections that the kernel redirects, for agents that do not follow proxy variables. Default: none.
	Transparent *Transparent `yaml:"transparent"`
	// Guard is what mediator guard makes rules of, that leave the pod's other users no way out but the sidecar. With it the sidecar
	// looks every two seconds whether they stand, and refuses posts while they do not. Default: none.
	Guard *Guard `yaml:"guard"`
	// Admin is where operators reach the sidecar: a unix socket outside of the agent's reach, or TCP with a token. Required.
	Admin Endpoint `yaml:"admin"`
	// State is the folder of the ledger and of spooled bodies; it must exist and belong to the mediator's user alone. Required.
	State string `yaml:"state" is:"path"`
	// Ledger says where consumed keys and the records of posts are kept. Default: in a file in State, for this process alone.
	Ledger Ledger `yaml:"ledger"`
	// Retention is how long the record of a call is kept, with its evidence; 0s keeps it for ever. Default 2160h, 90 days.
	Retention *Duration `yaml:"retention"`
	// CA is the interception CA.
	CA CA `yaml:"ca"`
	// Custody says where the sidecar's signing keys are.
	Custody Custody `yaml:"custody"`
	// Keys names the sidecar's signing keys and issuers.
	Keys SidecarKeys `yaml:"keys"`
	// Receipts has the sidecar sign a receipt for each call to a model that a rule observes, and for each post, in one chain for each session.
	// It goes together with keys.interactionReceipt, and a rule with observe needs it. Default: no receipts are made.
	Receipts *Receipts `yaml:"receipts"`
	// Reputation is where the node answers that appraises the receipts of agents. The sidecar hands them over to it, and relays what agents
	// ask of it: challenges and scores. It needs Receipts. Default: there is no node.
	Reputation *Node `yaml:"reputation"`
	// Audience is the aud of what the sidecar signs: the APIs that verify it. Required.
	Audience string `yaml:"audience"`
	// Trust pins the two root keys and names the trust bundle.
	Trust Trust `yaml:"trust"`
	// Manifest is the path of the strict deployment manifest. Required.
	Manifest string `yaml:"manifest" is:"path" reload:"yes"`
	// Trigger is where the trigger service answers. Required.
	Trigger Endpoint `yaml:"trigger"`
	// Control is where the control plane answers. Required.
	Control Endpoint `yaml:"control"`
	// Gate configures the mediator's own gate, for APIs that know nothing of ActionProof.
	Gate Gate `yaml:"gate"`
	// Agent is the user that the agent runs as.
	Agent Agent `yaml:"agent"`
	// Session configures agents' sessions.
	Session Session `yaml:"session"`
	// Actions are the calls that post: each is forwarded only with the whole chain of evidence.
	Actions []Action `yaml:"actions" reload:"yes"`
	// Egress are the calls that are no posts and may go out without evidence; everything else is denied. That an upstream changes nothing
	// by them, not by a GET either, is for the rule's author to know.
	Egress []Egress `yaml:"egress" reload:"yes"`
	// Upstreams are settings for hosts that need other than the defaults.
	Upstreams []Upstream `yaml:"upstreams" reload:"yes"`
	// WebSocketRefusal is what a client gets that asks for a WebSocket where no rule allows one: answer is the status 403 with the reason,
	// and close ends its connection without an answer, upon which some clients go on without a WebSocket. Default answer.
	WebSocketRefusal string `yaml:"websocketRefusal" reload:"yes"`
	// Timeouts bound the waits of a call.
	Timeouts Timeouts `yaml:"timeouts"`
	// Limits bound what the sidecar takes on. A call over one is refused before anything of it is sent or used up, with Retry-After.
	Limits Limits `yaml:"limits"`
	// Confine says what the process keeps for itself once it serves.
	Confine Confine `yaml:"confine"`
	// Log configures the log on standard error.
	Log Log `yaml:"log"`

	// What the checks have made of the keys above. The actions lack their gates, and no rule has its credential yet.
	LedgerDSN     string          `yaml:"-" of:"ledger.postgres.dsnFile"` // how to connect to the ledger's database; empty if the ledger is a file
	GateSecret    string          `yaml:"-" of:"gate.secretFile"`         // empty for one that lives in memory alone
	ActionRules   []proxy.Action  `yaml:"-"`
	EgressRules   []proxy.Egress  `yaml:"-"`
	UpstreamHosts []upstream.Host `yaml:"-"`
	// Warnings are no findings: the configuration is used.
	Warnings []Warning `yaml:"-"`
}

// Transparent configures the transparent listener. Redirected connections carry no proxy credentials, so they belong to
// the pod's standing session.
type Transparent struct {
	// Listen is the IPv4 address to which connections are redirected, on loopback where mediator guard does it. Required.
	Listen string `yaml:"listen"`
	// AnyAddress takes a connection to whatever address, if its name is allowed. The name is resolved anew and nothing is ever sent to
	// that address. Default false: the address has to be one that the name has here.
	AnyAddress bool `yaml:"anyAddress"`
}

// Guard says which users may leave the pod, and where all other users may go. All other users always reach the proxy,
// and otherwise only what is named here.
type Guard struct {
	// UIDs are the users that may leave: those of the mediator's processes in this pod, never root. Required.
	UIDs []uint32 `yaml:"uids"`
	// Redirect are the TCP ports that are led to the transparent listener, if there is one. Default 443 and 80.
	Redirect []uint16 `yaml:"redirect"`
	// Resolvers are DNS servers, by IPv4 address, that every process may ask on port 53. Default none: an agent that uses the proxy needs
	// none, and whoever may ask a resolver can tell the world something by the names it asks for.
	Resolvers []string `yaml:"resolvers"`
	// Loopback are the TCP and UDP ports on loopback, as 3000 or 8000-8099, by which other processes may talk among themselves. The
	// mediator's own ports stay closed. Default none.
	Loopback []string `yaml:"loopback"`
	// Inbound are TCP ports of the mediator to which others may connect from outside, such as a webhook port. Default none.
	Inbound []uint16 `yaml:"inbound"`
	// Devices are the network devices at which packet sockets are refused as well (Linux 5.16 and later). Default: all that are there when
	// the rules are made; [none] for an older kernel, where only the lack of CAP_NET_RAW stops packet sockets.
	Devices []string `yaml:"devices"`
}

// Ledger says where the ledger is.
type Ledger struct {
	// Postgres keeps it in a PostgreSQL database, which several sidecars can share.
	Postgres *Postgres `yaml:"postgres"`
}

// CA configures the interception CA.
type CA struct {
	// Dir is the folder of the CA's certificate and key, made with mediator ca init. Empty: a CA that lives in memory alone, whose
	// certificate is written to CertificateFile at each start.
	Dir string `yaml:"dir" is:"path"`
	// CertificateFile is where the CA's certificate is written for agents to trust. Default ca.pem in State.
	CertificateFile string `yaml:"certificateFile" is:"path"`
	// Permit are hosts that the CA is good for besides those that rules name: names, which include their subdomains, and IP addresses. A
	// reload takes rules for them. Default none.
	Permit []string `yaml:"permit"`
	// Unconstrained leaves the CA's certificate without name constraints. Default false: it is good only for the hosts that rules and
	// Permit name.
	Unconstrained bool `yaml:"unconstrained"`
}

// Gate configures the mediator's own gate.
type Gate struct {
	// Issuer is the iss of its challenge tokens and capabilities. Default mediator-gate.
	Issuer string `yaml:"issuer"`
	// SecretFile holds its secret, at least 32 bytes. Empty: a random secret that lives in memory alone.
	SecretFile string `yaml:"secretFile" is:"path"`
	// Difficulty of its challenges: lite, standard or gauntlet. Default standard.
	Difficulty string `yaml:"difficulty"`
}

// Session configures agents' sessions.
type Session struct {
	// Standing gives the pod one session that an agent uses without proxy credentials, and in which it waits for its next event at
	// http://mediator.internal/v1/event/next; calls that wait there together get the same one. The session goes on until the next event has
	// come. Default false: an agent needs the listener or the credentials that mediator run gives it.
	Standing bool `yaml:"standing"`
	// Access declares who can reach the agent's run. Receipts repeat it, with what was seen of the run besides, and strict policy refuses
	// any true.
	Access Access `yaml:"access" reload:"yes"`
}

// Access declares who can reach the agent's run.
type Access struct {
	// HumanPrompt is whether a human can prompt the agent. Default false.
	HumanPrompt bool `yaml:"humanPrompt"`
	// HumanOperator is whether a human operates the run. Default false.
	HumanOperator bool `yaml:"humanOperator"`
	// UserShell is whether users have a shell in the run. Default false.
	UserShell bool `yaml:"userShell"`
	// UserEnvironment is whether users can reach the agent's environment. Default false.
	UserEnvironment bool `yaml:"userEnvironment"`
}

// Match says which calls a rule is for.
type Match struct {
	// URL is scheme, host and path pattern in one: https://api.example.com/posts/{id}. A path segment in braces stands for any one
	// segment; in an egress rule ** at the end stands for any rest, and *. before a domain for its subdomains. http://mediator.internal/mcp is the
	// verification at the node. Required.
	URL string `yaml:"url"`
	// Methods are the methods; an action has exactly one. Required, unless the rule is about messages (MCP, GraphQL), which then have theirs.
	Methods []string `yaml:"methods"`
	// MCP makes it a rule about the messages to an MCP server (Streamable HTTP): several rules may name the same URL, and each message is
	// for the one that names its tool or method. What no rule names is refused. Default: the rule is for all that is sent there.
	MCP *MCP `yaml:"mcp"`
	// GraphQL makes it a rule about the operations of documents: several rules may name the same URL, and each document is for the one that
	// names all that it could do. What no rule names is refused, by GET as well. Default: the rule is for all that is sent there.
	GraphQL *GraphQL `yaml:"graphql"`
}

// GraphQL names operations of GraphQL documents.
type GraphQL struct {
	// Type is mutation in an action, and query in an egress rule. Required.
	Type string `yaml:"type"`
	// Fields are the fields that may stand at the top of an operation, by their names and not by their aliases, such as addComment; __typename
	// always may. Required for an action. Default: every field, introspection (__schema) included.
	Fields []string `yaml:"fields"`
}

// MCP names messages of the Model Context Protocol.
type MCP struct {
	// Tools are the tools that may be called, by their exact names. Required for an action.
	Tools []string `yaml:"tools"`
	// Methods are the other methods that an egress rule lets pass, notifications included. Default: those of a session, of lists and of
	// reads (initialize, ping, server/discover, completion/complete, logging/setLevel, subscriptions/listen, the methods of prompts and
	// resources, tools/list, and the client's notifications).
	Methods []string `yaml:"methods"`
	// Elicitation lets answers of a human to the server pass; the session makes no posts after one. Only for egress rules. Default false.
	Elicitation bool `yaml:"elicitation"`
	// Sampling lets answers of a model to the server pass. Only for egress rules. Default false.
	Sampling bool `yaml:"sampling"`
	// Pin holds, by tool, the SHA-256 of its definition, in canonical JSON and lowercase hex: a tool whose definition is another one, or was not
	// shown in the session, is not called. Default: a change is recorded.
	Pin map[string]string `yaml:"pin"`
	// SameConnection is your word that the server answers each call on the connection of the call. Then clients can post that do not show it: those
	// that send no Accept header for both forms of answers, or say revision 2024-11-05. Only for actions. Default false.
	SameConnection bool `yaml:"sameConnection"`
}

// Credential is a secret that the mediator puts into a call. The agent never holds it: an answer that repeats it is cut.
type Credential struct {
	// Header is the header that carries it. Default Authorization.
	Header string `yaml:"header"`
	// Prefix stands before the secret, such as "Bearer ". What is not secret belongs here: answers are searched for the secret alone.
	// Default none.
	Prefix string `yaml:"prefix"`
	// BasicSecret says which half of a Basic credential (user:password in base64) is secret, so that answers are searched for it: password,
	// user, both or auto. Default auto: the password, or the user if the password is short, x-oauth-basic or api_token.
	BasicSecret string `yaml:"basicSecret"`
	// File holds the secret, of 8 bytes at least; one line end after it is not part of it. It is read again after the upstream has answered 401. Either this or
	// Vault.
	File string `yaml:"file" is:"path"`
	// Vault reads the secret from Vault; only with custody.type vault, whose server and auth are used, with api_credential for {role}. It
	// is read again after a minute, when its lease is nearly over, and after the upstream has answered 401.
	Vault *VaultSecret `yaml:"vault"`
}

// VaultSecret names a secret in Vault.
type VaultSecret struct {
	// Path is what vault read takes: kv/data/github in version 2 of the KV engine, or a path that makes a secret for a time, such as
	// github/token. {rule} in it stands for the name of the rule. Required.
	Path string `yaml:"path"`
	// Field of the secret. Required.
	Field string `yaml:"field"`
}

// Action is one kind of call that posts.
type Action struct {
	// Name of the rule, in records and metrics. Required.
	Name string `yaml:"name"`
	// Match says which calls it is for.
	Match Match `yaml:"match"`
	// Subject is on whose behalf the call is made. Required.
	Subject string `yaml:"subject"`
	// Action names the operation, such as create_post. Required.
	Action string `yaml:"action"`
	// Content is json (normalised by RFC 8785) or raw (the bytes as they are: forms, multipart, uploads). Default json.
	Content string `yaml:"content"`
	// MaxBody bounds the body in bytes. Default 1048576.
	MaxBody int64 `yaml:"maxBody"`
	// Query admits a query, which then is part of the resource: in the evidence and in the record, where a secret in it would be kept.
	// Default false.
	Query bool `yaml:"query"`
	// Headers are the agent's headers that go out; a call with another is refused, but for the usual ones (Accept, Content-Type, User-Agent and
	// such) and those that are removed or replaced anyway. No evidence covers a header, and some change what a post does, or in whose
	// name. [] takes none. Default: all go out.
	Headers []string `yaml:"headers"`
	// Credential is injected in place of whatever the agent sent.
	Credential *Credential `yaml:"credential"`
	// Gate is local (the mediator's own gate) or api (the API takes part). Default local.
	Gate string `yaml:"gate"`
	// API says where an API that takes part answers; only with gate: api.
	API *API `yaml:"api"`
	// Solver of the challenge: runtime (the mediator, which owns the whole autonomous path) or agent. Default runtime.
	Solver string `yaml:"solver"`
}

// API says where an API that takes part answers.
type API struct {
	// Challenge is the URL that issues challenges. Required.
	Challenge string `yaml:"challenge"`
	// Verify is the URL that verifies envelopes and mints capabilities. Required.
	Verify string `yaml:"verify"`
}

// Egress is one kind of call that is not a post.
type Egress struct {
	// Name of the rule, in records and metrics. Required.
	Name string `yaml:"name"`
	// Match says which calls it is for.
	Match Match `yaml:"match"`
	// Credential is injected in place of whatever the agent sent. Default: the agent's own headers go through.
	Credential *Credential `yaml:"credential"`
	// Observe has the calls to a model looked at: openai-chat, openai-responses or anthropic-messages, after the shape of its API. Requests are
	// judged before they are sent, and records say what was asked and answered when, in names and figures. The rule then has the method POST
	// alone. Default: they pass unseen.
	Observe string `yaml:"observe"`
	// HostedTools are what the provider of an observed model may do by itself besides answering, which cannot be seen here: types of tools that
	// it runs (web_search, mcp, code_execution_20250825), members of a request (background, previous_response_id, mcp_servers), or
	// remote_content, which it fetches from URLs in a request. Default: none; such requests are refused.
	HostedTools []string `yaml:"hostedTools"`
	// Generate offers models of an observed rule, whose URL has no {name}, at http://mediator.internal/v1/generate. Default: none.
	Generate *Generate `yaml:"generate"`
	// WebSocket admits WebSockets as well; the rule has to name GET. What passes in one is not looked into, so an agent can post by it. It ends
	// with the session, or when nothing comes for timeouts.websocketIdle. Default false.
	WebSocket bool `yaml:"websocket"`
}

// Upstream holds the settings of one host that differ from the defaults.
type Upstream struct {
	// Host is a host:port. Required.
	Host string `yaml:"host"`
	// Address is dialled in place of what the name resolves to: an IP address, alone or with a port; it must be public or in Networks.
	// Default: the name is resolved.
	Address string `yaml:"address"`
	// Networks are the address ranges, besides public addresses, that its name may resolve to. Default none.
	Networks []string `yaml:"networks"`
	// CA is the path of PEM certificates that sign its certificate, besides the system's. Default none.
	CA string `yaml:"ca" is:"path"`
}

// Timeouts bounds the waits of a call.
type Timeouts struct {
	// Step bounds each step of a post before it is sent, the wait for its body included. Default 10s.
	Step Duration `yaml:"step" reload:"yes"`
	// Forward bounds the forward of a post, to the end of its answer, and any call that goes on when its session has ended. Default 60s.
	Forward Duration `yaml:"forward" reload:"yes"`
	// ResponseHeader bounds the wait for an upstream's response headers. Default 10m, for slow inference.
	ResponseHeader Duration `yaml:"responseHeader" reload:"yes"`
	// WebSocketIdle closes a WebSocket over which nothing has come for so long, from neither side. Default 5m.
	WebSocketIdle Duration `yaml:"websocketIdle" reload:"yes"`
	// Shutdown bounds the wait for calls in flight when the process ends. Default 20s.
	Shutdown Duration `yaml:"shutdown"`
}

// Limits bounds what the sidecar takes on.
type Limits struct {
	// Calls is how many calls may be in flight, with those that wait for an upstream or for the next event; further ones are refused at
	// once as overloaded. Default 1024.
	Calls int `yaml:"calls" reload:"yes"`
	// Session bounds the calls and CONNECTs of each session (rate_limited). Default 1000 per second.
	Session Rate `yaml:"session" reload:"yes"`
	// Host bounds the calls to each host and port, of all sessions together (rate_limited). Default 2000 per second.
	Host Rate `yaml:"host" reload:"yes"`
	// Breaker leaves a host and port alone while it fails (upstream_suspended). A failure is a call that gets no answer, because the name,
	// the connection, TLS or the answer failed or took too long, or the status 502, 503 or 504. Any other status is none, nor is what the
	// agent or the mediator ends.
	Breaker Breaker `yaml:"breaker" reload:"yes"`
	// WebSockets is how many may be open at once; further ones are refused at once as overloaded. Each counts as a call in flight too.
	// Default 256.
	WebSockets int `yaml:"websockets" reload:"yes"`
	// Bodies bounds what the bodies of all posts on their way take together (overloaded).
	Bodies Bodies `yaml:"bodies" reload:"yes"`
	// UnknownCallers is how many calls a minute, of callers without a session, leave a record and a line in the log. Further ones are
	// refused just the same and only counted (mediator_records_left_out_total). Default 10.
	UnknownCallers int `yaml:"unknownCallers" reload:"yes"`
	// Connections is how many connections of agents may be open; further ones wait until one of them is closed. Agents with a listener of
	// their own have as many again together, and a sixteenth of it each. Each needs a descriptor.
	// Default 4096.
	Connections int `yaml:"connections"`
	// Tunnels is how many of them may be tunnels; a further CONNECT is refused (too_many_tunnels). Default 2048.
	Tunnels int `yaml:"tunnels"`
}

// Bodies bounds the memory and the disk space of bodies, in bytes.
type Bodies struct {
	// Memory is for JSON and for what else has no more than 1 MiB. Default 67108864.
	Memory int64 `yaml:"memory"`
	// Spool is for larger ones, in files that are unlinked as they are made. Default 1073741824.
	Spool int64 `yaml:"spool"`
}

// Rate is a rate of calls.
type Rate struct {
	// PerSecond is the rate, from 0.001 to 1000000.
	PerSecond float64 `yaml:"perSecond"`
	// Burst is how many calls may come at once after a silence. Default: as many as two seconds bring, at least 1.
	Burst int `yaml:"burst"`
}

// Breaker says when calls to a host are suspended.
type Breaker struct {
	// Failures is how many failures in a row suspend the calls to a host. Default 10.
	Failures int `yaml:"failures"`
	// Pause is how long; then one call may try it, and the others follow once it is answered. Default 15s.
	Pause Duration `yaml:"pause"`
}

// Load returns the limits that the pipeline applies.
func (c Limits) Load() proxy.Load {
	return proxy.Load{
		Calls: c.Calls, Session: proxy.Rate(c.Session), Host: proxy.Rate(c.Host),
		Breaker: upstream.Breaker{Failures: c.Breaker.Failures, Pause: time.Duration(c.Breaker.Pause)}, Bodies: body.Limits(c.Bodies),
		WebSockets: c.WebSockets, Unknown: c.UnknownCallers,
	}
}

// Listeners returns the limits that the listeners apply.
func (c Limits) Listeners() intercept.Limits {
	return intercept.Limits{Connections: c.Connections, Tunnels: c.Tunnels}
}
