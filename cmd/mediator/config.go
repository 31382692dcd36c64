package main

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/proxy"
)

// The three configuration files. Each is decoded strictly: an unknown key, a duplicate key, a key without a value or a second document is an error with
// its line. Secrets are never in a file, only the paths of the files that hold them; relative paths are taken from the
// configuration file's own folder. The comments below are the configuration reference (docs/configuration.md). What is tagged reload is
// taken over by a reload, all else is bound to the process.

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

// agentConfig names the user that the agent runs as. A process that knows it looks whether that user can reach its memory or its
// files, and neither starts nor forwards a post while it can.
type agentConfig struct {
	// UID is the agent's user, who runs nothing but agents that mediator run starts: in the sidecar any other process of this user taints
	// the sessions. Default: the process does not look, and what the manifest says of the agent's reach is only declared.
	UID *uint32 `yaml:"uid"`
	// GIDs are all the agent's groups. Default none.
	GIDs []uint32 `yaml:"gids"`
}

// endpointConfig is a listener, or where one answers.
type endpointConfig struct {
	// Unix is the path of a unix socket. Either this or TCP.
	Unix string `yaml:"unix"`
	// UIDs are the users, besides the mediator's own and root, whose processes may connect to the socket. Default none.
	UIDs []uint32 `yaml:"uids"`
	// TCP is a host:port; it needs a token.
	TCP string `yaml:"tcp"`
	// TokenFile holds the bearer token that a TCP endpoint demands, at least 32 bytes.
	TokenFile string `yaml:"tokenFile"`
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

// custodyConfig says where keys are.
type custodyConfig struct {
	// Type is memory (keys that are made at each start, live in the process's memory alone and are never written out), vault (keys in
	// HashiCorp Vault's Transit engine) or pkcs11 (keys in a token, such as a hardware security module). Required.
	Type string `yaml:"type"`
	// Vault says where Vault is; only with type: vault.
	Vault *vaultConfig `yaml:"vault"`
	// PKCS11 names the token; only with type: pkcs11.
	PKCS11 *pkcs11Config `yaml:"pkcs11"`
}

// vaultConfig says where Vault is and how this process logs in. Each signing role has a Vault role of its own; {role} in a name or path of
// auth stands for the role: trigger_origin_proof, trigger_receipt, runtime_attestation, agent_session, request_proof, policy_decision,
// action_grant, or api_credential for a credential.
type vaultConfig struct {
	// Address is https://host:port. Required.
	Address string `yaml:"address"`
	// CA is the path of PEM certificates that sign Vault's certificate. Default: the system's.
	CA string `yaml:"ca"`
	// Transit is the mount of the Transit engine. Default transit.
	Transit string `yaml:"transit"`
	// Timeout bounds each request to Vault. Default 2s.
	Timeout duration `yaml:"timeout"`
	// Keys are the names of all signing keys of the deployment. That a role's token can use none but its own is looked at. Required.
	Keys []string `yaml:"keys"`
	// Auth says how to log in.
	Auth vaultAuthConfig `yaml:"auth"`
}

// vaultAuthConfig says how to log in to Vault; exactly one of the methods is set.
type vaultAuthConfig struct {
	// AppRole logs in with a role id and a secret id.
	AppRole *appRoleConfig `yaml:"appRole"`
	// Kubernetes logs in with the pod's service account.
	Kubernetes *kubernetesConfig `yaml:"kubernetes"`
	// TokenFile is the path of a token that somebody else keeps, such as Vault Agent.
	TokenFile string `yaml:"tokenFile"`
}

// appRoleConfig configures AppRole.
type appRoleConfig struct {
	// Mount of the auth method. Default approle.
	Mount string `yaml:"mount"`
	// Role is the name of the AppRole, such as mediator-{role}. Required.
	Role string `yaml:"role"`
	// RoleIDFile holds the role id. Required.
	RoleIDFile string `yaml:"roleIDFile"`
	// SecretIDFile holds the secret id, or a response-wrapping token for it. It is read again at each login. Required.
	SecretIDFile string `yaml:"secretIDFile"`
	// Unwrapped says that SecretIDFile holds the secret id itself. Default false: it holds a wrapping token, which is good once.
	Unwrapped bool `yaml:"unwrapped"`
}

// kubernetesConfig configures the Kubernetes auth method.
type kubernetesConfig struct {
	// Mount of the auth method. Default kubernetes.
	Mount string `yaml:"mount"`
	// Role is the name of Vault's role, such as mediator-{role}. Required.
	Role string `yaml:"role"`
	// TokenFile is the service account's token. Default /var/run/secrets/kubernetes.io/serviceaccount/token.
	TokenFile string `yaml:"tokenFile"`
}

// pkcs11Config names a PKCS #11 token. A key is its private Ed25519 keys with the key's name as label; the id is the version.
type pkcs11Config struct {
	// Module is the path of the token's library. Required.
	Module string `yaml:"module"`
	// Token is the token's label. Required.
	Token string `yaml:"token"`
	// PINFile holds the PIN of the token's user. Required.
	PINFile string `yaml:"pinFile"`
	// Hardware declares that the token is a hardware module, where its slot does not say so. Default false.
	Hardware bool `yaml:"hardware"`
}

// rootKeyConfig names a root key that Vault or a PKCS #11 token holds.
type rootKeyConfig struct {
	// Purpose is signer_certificate for the key registry's key and deployment_certificate for the auditor's; {role} in custody.vault.auth
	// stands for it. Required.
	Purpose string `yaml:"purpose"`
	// Key is the name of the key, without a version. Required.
	Key string `yaml:"key"`
	// Version is the one that is pinned: what another version signs is refused by everyone. Default 1.
	Version int `yaml:"version"`
	// Custody says where the key is; its type is vault or pkcs11. Required.
	Custody custodyConfig `yaml:"custody"`
}

// keyConfig is one signing role.
type keyConfig struct {
	// Key is the name of the key, without a version. Required.
	Key string `yaml:"key"`
	// Issuer is the iss of what it signs. Required.
	Issuer string `yaml:"issuer"`
	// Lifetime is exp - iat of what it signs. Default 60s.
	Lifetime duration `yaml:"lifetime"`
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

// trustConfig says whom a process believes.
type trustConfig struct {
	// Registry is the path of the pinned public key (JWK) of the key registry, which signs custody certificates. Required.
	Registry string `yaml:"registry"`
	// Auditor is the path of the pinned public key (JWK) of the deployment auditor. Required.
	Auditor string `yaml:"auditor"`
	// Bundle is the path of the trust bundle, as mediator keys certify writes it; it is read again when it changes. Required.
	Bundle string `yaml:"bundle"`
	// ClockSkew is the clock difference that is tolerated, at most 1m. Default 2s.
	ClockSkew duration `yaml:"clockSkew"`
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
	// http://mediator.internal/v1/event/next. Default false: an agent needs the credentials that mediator run gives it.
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
	// Step bounds each step of a post that asks another process. Default 10s.
	Step duration `yaml:"step" reload:"yes"`
	// Forward bounds the forward of a post. Default 60s.
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
		Breaker: proxy.Breaker{Failures: c.Breaker.Failures, Pause: time.Duration(c.Breaker.Pause)}, Bodies: proxy.Bodies(c.Bodies),
	}
}

func (c limitsConfig) connections() proxy.Limits {
	return proxy.Limits{Connections: c.Connections, Tunnels: c.Tunnels}
}

// logConfig configures the log.
type logConfig struct {
	// Level is debug, info, warn or error. Default info.
	Level string `yaml:"level"`
}

// confineConfig says how a process confines itself before it listens. Whatever stands here, it drops the capabilities that it does not need,
// writes no core dump, is out of reach for debuggers of its own user, and gets no privileges by executing a program.
type confineConfig struct {
	// Landlock holds the process to the folders of the files that this configuration names, and to its TCP ports: best_effort (as far as the
	// kernel can; the log and mediator doctor say how far), required (Linux 6.12 with Landlock, or the process does not start) or off.
	// Default best_effort.
	Landlock string `yaml:"landlock"`
	// Seccomp holds the process to the system calls of a program that starts no other: required or off. Default required.
	Seccomp string `yaml:"seccomp"`
	// Read are more files and folders that may be read, such as the settings of a PKCS #11 module. Default none.
	Read []string `yaml:"read"`
	// Write are more files and folders that may be written as well, such as the store of a token in software. Default none.
	Write []string `yaml:"write"`
	// Connect are more TCP ports to which it may connect, such as that of a token on the network. Default none.
	Connect []uint16 `yaml:"connect"`
}

// triggerConfig configures the trigger service: mediator trigger.
type triggerConfig struct {
	// Listen is the address on which webhooks arrive. Empty: none do.
	Listen string `yaml:"listen"`
	// TLSCertificate and TLSKey are PEM files; with them webhooks arrive over HTTPS. Default: plain HTTP behind a terminating proxy.
	TLSCertificate string `yaml:"tlsCertificate"`
	// TLSKey is the key of TLSCertificate.
	TLSKey string `yaml:"tlsKey"`
	// Internal is where sidecars reach the service, out of the agent's reach. Required.
	Internal endpointConfig `yaml:"internal"`
	// State is the folder of the event store; it must exist and belong to the service's user alone. Required.
	State string `yaml:"state"`
	// Custody says where the service's two signing keys are.
	Custody custodyConfig `yaml:"custody"`
	// Keys names the two signing roles.
	Keys triggerKeys `yaml:"keys"`
	// Trust names the trust bundle: a version of a key signs once it is certified there.
	Trust trustConfig `yaml:"trust"`
	// Agent is the user that the agent runs as.
	Agent agentConfig `yaml:"agent"`
	// MaxAge is how long after its arrival an event can still open a session and be the reason of a post. Default 15m.
	MaxAge duration `yaml:"maxAge"`
	// Budget is how many posts of one action an event pays for. Default 1.
	Budget int `yaml:"budget"`
	// Sources are where events come from.
	Sources []sourceConfig `yaml:"sources" reload:"yes"`
	// Confine says what the process keeps for itself once it serves.
	Confine confineConfig `yaml:"confine"`
	// Log configures the log on standard error.
	Log logConfig `yaml:"log"`
}

// triggerKeys are the trigger service's two roles. Each has a key, an issuer and an audience of its own.
type triggerKeys struct {
	// Origin is the source verifier, which signs trigger origin proofs.
	Origin audienceKey `yaml:"origin"`
	// Receipt is the trigger mediator, which signs trigger receipts.
	Receipt audienceKey `yaml:"receipt"`
}

// audienceKey is a signing role with an audience of its own.
type audienceKey struct {
	keyConfig `yaml:",inline"`
	// Audience is the aud of what it signs. Required.
	Audience string `yaml:"audience"`
}

// sourceConfig is one source of events; exactly one of its kinds is set.
type sourceConfig struct {
	// Name of the source, in events and artifacts, and in the webhook's path /hooks/NAME. Required.
	Name string `yaml:"name"`
	// GitHub receives GitHub's webhooks.
	GitHub *githubConfig `yaml:"github"`
	// StandardWebhooks receives webhooks of the Standard Webhooks specification.
	StandardWebhooks *webhookConfig `yaml:"standardWebhooks"`
	// Engine receives a policy engine's decisions, signed as Standard Webhooks.
	Engine *webhookConfig `yaml:"engine"`
	// Schedule makes an event at each time of a cron expression.
	Schedule *scheduleConfig `yaml:"schedule"`
	// Queue claims messages from a spool directory.
	Queue *queueConfig `yaml:"queue"`
}

// githubConfig configures a GitHub webhook.
type githubConfig struct {
	// SecretFiles hold the webhook's secrets, which are no other GitHub source's; several during a rotation. Required.
	SecretFiles []string `yaml:"secretFiles"`
	// Events are the events that start a run, each as event or event.action, such as release.published. Required.
	Events []string `yaml:"events"`
	// Human are the events that a human asked for, such as workflow_dispatch: kept, but never the reason of a post. Default none.
	Human []string `yaml:"human"`
}

// webhookConfig configures a signed webhook.
type webhookConfig struct {
	// SecretFiles hold the secrets (whsec_...), which are those of no other standardWebhooks or engine; several during a rotation. Required.
	SecretFiles []string `yaml:"secretFiles"`
}

// scheduleConfig configures a schedule.
type scheduleConfig struct {
	// Cron is a five-field cron expression. Required.
	Cron string `yaml:"cron"`
	// Timezone is an IANA name. Default UTC.
	Timezone string `yaml:"timezone"`
	// Missed says what becomes of times that passed while no scheduler ran: skip, or latest to make up for the last one. Default skip.
	Missed string `yaml:"missed"`
	// Payload is handed to the agent with each event. Default none.
	Payload map[string]any `yaml:"payload"`
}

// queueConfig configures a spool directory with the folders new, claimed and done.
type queueConfig struct {
	// Dir is the directory; producers move finished files into its folder new. Required.
	Dir string `yaml:"dir"`
	// Owners are the users, besides the service's own and the directory's owner, whose files are taken. Default none.
	Owners []uint32 `yaml:"owners"`
	// Poll is how often it is looked at. Default 1s.
	Poll duration `yaml:"poll"`
}

// controlConfig configures the control plane: mediator control.
type controlConfig struct {
	// Internal is where sidecars reach it, out of the agent's reach. Required.
	Internal endpointConfig `yaml:"internal"`
	// Custody says where its two signing keys are.
	Custody custodyConfig `yaml:"custody"`
	// Keys names the two signing roles.
	Keys controlKeys `yaml:"keys"`
	// Agent is the user that the agent runs as.
	Agent agentConfig `yaml:"agent"`
	// Audience is the aud of what it signs: the APIs that verify it. Required.
	Audience string `yaml:"audience"`
	// Trust pins the two root keys and names the trust bundle.
	Trust trustConfig `yaml:"trust"`
	// Manifest is the path of the strict deployment manifest. Required.
	Manifest string `yaml:"manifest" reload:"yes"`
	// Policy is the path of the policy file with its CEL rules. Required.
	Policy string `yaml:"policy" reload:"yes"`
	// Confine says what the process keeps for itself once it serves.
	Confine confineConfig `yaml:"confine"`
	// Log configures the log on standard error.
	Log logConfig `yaml:"log"`
}

// controlKeys are the control plane's two roles.
type controlKeys struct {
	// Decision is the policy engine, which signs policy decisions.
	Decision keyConfig `yaml:"decision"`
	// Grant is the authorization service, which signs action grants.
	Grant keyConfig `yaml:"grant"`
}

// duration is a time.Duration written like 15s.
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := time.ParseDuration(n.Value)
	if err != nil || parsed < 0 {
		return fmt.Errorf("line %d: %q is not a duration such as 15s", n.Line, n.Value)
	}
	*d = duration(parsed)
	return nil
}

// or returns d, or the default where it is zero.
func (d duration) or(def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return time.Duration(d)
}
