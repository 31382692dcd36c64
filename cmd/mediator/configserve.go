package main

import (
	"time"

	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// serveConfig configures the sidecar: mediator serve.
type serveConfig struct {
	// Runtime names this runtime in attestations and receipts. Required.
	Runtime string `yaml:"runtime"`
	// Listen is the address of the proxy port, which agents use as HTTP_PROXY and HTTPS_PROXY. Required.
	Listen string `yaml:"listen"`
	// Transparent takes connections that the kernel redirects, for agents that do not follow proxy variables. Default: none.
	Transparent *transparentConfig `yaml:"transparent"`
	// Guard is what mediator guard makes rules of, that leave the pod's other users no way out but the sidecar. With it the sidecar
	// looks every two seconds whether they stand, and refuses posts while they do not. Default: none.
	Guard *guardConfig `yaml:"guard"`
	// Admin is where operators reach the sidecar: a unix socket outside of the agent's reach, or TCP with a token. Required.
	Admin endpointConfig `yaml:"admin"`
	// State is the folder of the ledger and of spooled bodies; it must exist and belong to the mediator's user alone. Required.
	State string `yaml:"state"`
	// Ledger says where consumed keys and the records of posts are kept. Default: in a file in State, for this process alone.
	Ledger ledgerConfig `yaml:"ledger"`
	// Retention is how long the record of a post is kept; 0s keeps it for ever. Default 0s.
	Retention duration `yaml:"retention"`
	// CA is the interception CA.
	CA caConfig `yaml:"ca"`
	// Custody says where the sidecar's three signing keys are.
	Custody custodyConfig `yaml:"custody"`
	// Keys names the sidecar's three signing keys and issuers.
	Keys serveKeys `yaml:"keys"`
	// Audience is the aud of what the sidecar signs: the APIs that verify it. Required.
	Audience string `yaml:"audience"`
	// Trust pins the two root keys and names the trust bundle.
	Trust trustConfig `yaml:"trust"`
	// Manifest is the path of the strict deployment manifest. Required.
	Manifest string `yaml:"manifest" reload:"yes"`
	// Trigger is where the trigger service answers. Required.
	Trigger endpointConfig `yaml:"trigger"`
	// Control is where the control plane answers. Required.
	Control endpointConfig `yaml:"control"`
	// Gate configures the mediator's own gate, for APIs that know nothing of ActionProof.
	Gate gateConfig `yaml:"gate"`
	// Agent is the user that the agent runs as.
	Agent agentConfig `yaml:"agent"`
	// Session configures agents' sessions.
	Session sessionConfig `yaml:"session"`
	// Actions are the calls that post: each is forwarded only with the whole chain of evidence.
	Actions []actionConfig `yaml:"actions" reload:"yes"`
	// Egress are the calls that are no posts and may go out without evidence; everything else is denied. That an upstream changes nothing
	// by them, not by a GET either, is for the rule's author to know.
	Egress []egressConfig `yaml:"egress" reload:"yes"`
	// Upstreams are settings for hosts that need other than the defaults.
	Upstreams []upstreamConfig `yaml:"upstreams" reload:"yes"`
	// Timeouts bound the waits of a call.
	Timeouts timeoutConfig `yaml:"timeouts"`
	// Limits bound what the sidecar takes on. A call over one is refused before anything of it is sent or used up, with Retry-After.
	Limits limitsConfig `yaml:"limits"`
	// Confine says what the process keeps for itself once it serves.
	Confine confineConfig `yaml:"confine"`
	// Log configures the log on standard error.
	Log logConfig `yaml:"log"`
}

// transparentConfig configures the transparent listener. Redirected connections carry no proxy credentials: they belong to the pod's
// standing session.
type transparentConfig struct {
	// Listen is the IPv4 address to which connections are redirected, on loopback where mediator guard does it. Required.
	Listen string `yaml:"listen"`
	// AnyAddress takes a connection to whatever address, if its name is allowed. The name is resolved anew and nothing is ever sent to
	// that address. Default false: the address has to be one that the name has here.
	AnyAddress bool `yaml:"anyAddress"`
}

// guardConfig says who may leave the pod, and where everybody else may go. Everybody else always reaches the proxy, and nothing else that
// is not named here.
type guardConfig struct {
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

// ledgerConfig says where the ledger is.
type ledgerConfig struct {
	// Postgres keeps it in a PostgreSQL database, which several sidecars can share.
	Postgres *postgresConfig `yaml:"postgres"`
}

// postgresConfig names a database.
type postgresConfig struct {
	// DSNFile holds the connection URL or keyword/value string, with its password, as libpq takes them. A server on another machine
	// needs sslmode=verify-full. What it leaves out comes from libpq's variables, such as PGHOST. Required.
	DSNFile string `yaml:"dsnFile"`
}

// caConfig configures the interception CA.
type caConfig struct {
	// Dir is the folder of the CA's certificate and key, made with mediator ca init. Empty: a CA that lives in memory alone, whose
	// certificate is written to CertificateFile at each start.
	Dir string `yaml:"dir"`
	// CertificateFile is where the CA's certificate is written for agents to trust. Default ca.pem in State.
	CertificateFile string `yaml:"certificateFile"`
	// Unconstrained leaves the CA's certificate without name constraints. Default false: it is good only for the hosts that rules name.
	Unconstrained bool `yaml:"unconstrained"`
}

// serveKeys are the sidecar's roles.
type serveKeys struct {
	// Runtime signs runtime attestations.
	Runtime keyConfig `yaml:"runtime"`
	// Session signs agent session receipts.
	Session keyConfig `yaml:"session"`
	// RequestProof signs request proofs.
	RequestProof keyConfig `yaml:"requestProof"`
}

// gateConfig configures the mediator's own gate.
type gateConfig struct {
	// Issuer is the iss of its challenge tokens and capabilities. Default mediator-gate.
	Issuer string `yaml:"issuer"`
	// SecretFile holds its secret, at least 32 bytes. Empty: a random secret that lives in memory alone.
	SecretFile string `yaml:"secretFile"`
	// Difficulty of its challenges: lite, standard or gauntlet. Default standard.
	Difficulty string `yaml:"difficulty"`
}

// sessionConfig configures agents' sessions.
type sessionConfig struct {
	// Standing gives the pod one session that an agent uses without proxy credentials, and in which it waits for its next event at
	// http://mediator.internal/v1/event/next; calls that wait there together get the same one. Default false: an agent needs the credentials
	// that mediator run gives it.
	Standing bool `yaml:"standing"`
	// Access declares who can reach the agent's run. Receipts repeat it, with what was seen of the run besides, and strict policy refuses
	// any true.
	Access accessConfig `yaml:"access" reload:"yes"`
}

// accessConfig declares who can reach the agent's run.
type accessConfig struct {
	// HumanPrompt is whether a human can prompt the agent. Default false.
	HumanPrompt bool `yaml:"humanPrompt"`
	// HumanOperator is whether a human operates the run. Default false.
	HumanOperator bool `yaml:"humanOperator"`
	// UserShell is whether users have a shell in the run. Default false.
	UserShell bool `yaml:"userShell"`
	// UserEnvironment is whether users can reach the agent's environment. Default false.
	UserEnvironment bool `yaml:"userEnvironment"`
}

// matchConfig says which calls a rule is for.
type matchConfig struct {
	// URL is scheme, host and path pattern in one: https://api.example.com/posts/{id}. A path segment in braces stands for any one
	// segment; in an egress rule ** at the end stands for any rest, and *. before a domain for its subdomains. Required.
	URL string `yaml:"url"`
	// Methods are the methods; an action has exactly one. Required.
	Methods []string `yaml:"methods"`
}

// credentialConfig is a secret that the mediator puts into a call and the agent never holds.
type credentialConfig struct {
	// Header is the header that carries it. Default Authorization.
	Header string `yaml:"header"`
	// Prefix stands before the secret, such as "Bearer ". Default none.
	Prefix string `yaml:"prefix"`
	// File holds the secret; one line end after it is not part of it. It is read again after the upstream has answered 401. Either this or
	// Vault.
	File string `yaml:"file"`
	// Vault reads the secret from Vault; only with custody.type vault, whose server and auth are used, with api_credential for {role}. It
	// is read again after a minute, when its lease is nearly over, and after the upstream has answered 401.
	Vault *vaultSecretConfig `yaml:"vault"`
}

// vaultSecretConfig names a secret in Vault.
type vaultSecretConfig struct {
	// Path is what vault read takes: kv/data/github in version 2 of the KV engine, or a path that makes a secret for a time, such as
	// github/token. {rule} in it stands for the name of the rule. Required.
	Path string `yaml:"path"`
	// Field of the secret. Required.
	Field string `yaml:"field"`
}

// actionConfig is one kind of call that posts.
type actionConfig struct {
	// Name of the rule, in records and metrics. Required.
	Name string `yaml:"name"`
	// Match says which calls it is for.
	Match matchConfig `yaml:"match"`
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
	Credential *credentialConfig `yaml:"credential"`
	// Gate is local (the mediator's own gate) or api (the API takes part). Default local.
	Gate string `yaml:"gate"`
	// API says where an API that takes part answers; only with gate: api.
	API *apiConfig `yaml:"api"`
	// Solver of the challenge: runtime (the mediator, which owns the whole autonomous path) or agent. Default runtime.
	Solver string `yaml:"solver"`
}

// apiConfig says where an API that takes part answers.
type apiConfig struct {
	// Challenge is the URL that issues challenges. Required.
	Challenge string `yaml:"challenge"`
	// Verify is the URL that verifies envelopes and mints capabilities. Required.
	Verify string `yaml:"verify"`
}

// egressConfig is one kind of call that is no post.
type egressConfig struct {
	// Name of the rule, in records and metrics. Required.
	Name string `yaml:"name"`
	// Match says which calls it is for.
	Match matchConfig `yaml:"match"`
	// Credential is injected in place of whatever the agent sent. Default: the agent's own headers go through.
	Credential *credentialConfig `yaml:"credential"`
}

// upstreamConfig is what one host needs other than the defaults.
type upstreamConfig struct {
	// Host is a host:port. Required.
	Host string `yaml:"host"`
	// Address is dialled in place of what the name resolves to: an IP address, alone or with a port; it must be public or in Networks.
	// Default: the name is resolved.
	Address string `yaml:"address"`
	// Networks are the address ranges, besides public addresses, that its name may resolve to. Default none.
	Networks []string `yaml:"networks"`
	// CA is the path of PEM certificates that sign its certificate, besides the system's. Default none.
	CA string `yaml:"ca"`
}

// timeoutConfig bounds the waits of a call.
type timeoutConfig struct {
	// Step bounds each step of a post before it is sent, the wait for its body included. Default 10s.
	Step duration `yaml:"step" reload:"yes"`
	// Forward bounds the forward of a post, to the end of its answer. Default 60s.
	Forward duration `yaml:"forward" reload:"yes"`
	// ResponseHeader bounds the wait for an upstream's response headers. Default 10m, for slow inference.
	ResponseHeader duration `yaml:"responseHeader" reload:"yes"`
	// Shutdown bounds the wait for calls in flight when the process ends. Default 20s.
	Shutdown duration `yaml:"shutdown"`
}

// limitsConfig bounds what the sidecar takes on.
type limitsConfig struct {
	// Calls is how many calls may be in flight, with those that wait for an upstream or for the next event; further ones are refused at
	// once as overloaded. Default 1024.
	Calls int `yaml:"calls" reload:"yes"`
	// Session bounds the calls and CONNECTs of each session (rate_limited). Default 1000 per second.
	Session rateConfig `yaml:"session" reload:"yes"`
	// Host bounds the calls to each host and port, of all sessions together (rate_limited). Default 2000 per second.
	Host rateConfig `yaml:"host" reload:"yes"`
	// Breaker leaves a host and port alone while it fails (upstream_suspended). A failure is a call that gets no answer, because the name,
	// the connection, TLS or the answer failed or took too long, or the status 502, 503 or 504. Any other status is none, nor is what the
	// agent or the mediator ends.
	Breaker breakerConfig `yaml:"breaker" reload:"yes"`
	// Bodies bounds what the bodies of all posts on their way take together (overloaded).
	Bodies bodiesConfig `yaml:"bodies" reload:"yes"`
	// Connections is how many connections of agents may be open; further ones wait until one of them is closed. Each needs a descriptor.
	// Default 4096.
	Connections int `yaml:"connections"`
	// Tunnels is how many of them may be tunnels; a further CONNECT is refused (too_many_tunnels). Default 2048.
	Tunnels int `yaml:"tunnels"`
}

// bodiesConfig bounds what bodies take, in bytes.
type bodiesConfig struct {
	// Memory is for JSON and for what else has no more than 1 MiB. Default 67108864.
	Memory int64 `yaml:"memory"`
	// Spool is for larger ones, in files that are unlinked as they are made. Default 1073741824.
	Spool int64 `yaml:"spool"`
}

// rateConfig is a rate of calls.
type rateConfig struct {
	// PerSecond is the rate, from 0.001 to 1000000.
	PerSecond float64 `yaml:"perSecond"`
	// Burst is how many calls may come at once after a silence. Default: as many as two seconds bring, at least 1.
	Burst int `yaml:"burst"`
}

// breakerConfig says when a host is left alone.
type breakerConfig struct {
	// Failures is how many failures in a row suspend the calls to a host. Default 10.
	Failures int `yaml:"failures"`
	// Pause is how long; then one call may try it, and the others follow once it is answered. Default 15s.
	Pause duration `yaml:"pause"`
}

func (c limitsConfig) load() proxy.Load {
	return proxy.Load{
		Calls: c.Calls, Session: proxy.Rate(c.Session), Host: proxy.Rate(c.Host),
		Breaker: upstream.Breaker{Failures: c.Breaker.Failures, Pause: time.Duration(c.Breaker.Pause)}, Bodies: proxy.Bodies(c.Bodies),
	}
}

func (c limitsConfig) connections() intercept.Limits {
	return intercept.Limits{Connections: c.Connections, Tunnels: c.Tunnels}
}
