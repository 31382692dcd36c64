// Package config reads and checks the configuration of the processes. It opens no custody, socket or database.
//
//	sidecar.go, trigger.go, control.go, reputation.go   the four configuration files; config.go has shared parts
//	load.go      reads a file strictly, and makes its paths absolute
//	check*.go    check a file and report every finding at once
//	setup.go     reads the policy file, and checks rules against the manifest's ceiling
//	fields       (a package) what the types say of their keys: checks, paths, JSON Schema, which changes need a restart
//	secrets      (a package) the sections custody and credential
//	remote       (a package) the sections about servers of others: collectors, a proxy, xray servers
//
// A file never holds a secret, only the path of the file with the secret. The comments of the fields are the
// configuration reference (docs/configuration.md). The tags of a field say the rest:
//
//	need     it must not be empty
//	one      its allowed values; the first is the default
//	unique   no other key with this tag has its text; the tag says what the text is
//	choice   exactly one of the block's keys with this tag is set
//	from, to its bounds: of a number, a duration, the bytes of a text or the items of a list
//	is       what the key names:
//	         path: a file or folder; relative paths start at the file's own folder
//	         secret, public: a file that the agent must not change, nor read if it is secret
//	         library: a public file that the dynamic loader finds
//	         folder: one that the process writes to
//	         address: a host:port; listen: one where the process listens, as socket is of a unix socket
//	         peer, server: a host:port, or a URL, to which the process connects
//	least    how many bytes the secret in the file must have
//	of       the key with the path of the file whose content the field holds
//	reload   a reload applies it; all other keys need a restart
package config

import (
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/config/remote"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/db/postgres"
)

// Process is what all processes configure in the same way.
type Process struct {
	// Custody says where the signing keys are.
	Custody secrets.Custody `yaml:"custody" need:"yes"`
	// Trust names the two root keys and the trust bundle.
	Trust Trust `yaml:"trust" need:"yes"`
	// Agent names the agent's user.
	Agent Agent `yaml:"agent"`
	// Confine restricts the process before it listens.
	Confine Confine `yaml:"confine"`
	// Log configures the log on standard error.
	Log Log `yaml:"log"`
	// TLS is the process's certificate for TCP endpoints.
	TLS *TLS `yaml:"tls"`
	// Probes serves metrics and health.
	Probes *Probes `yaml:"probes"`
	// Tracing sends OpenTelemetry traces (docs/operations/telemetry.md).
	Tracing *remote.Tracing `yaml:"tracing"`
	// Registrar certifies this process's keys, and delivers `trust.bundle` and, in the same folder, `manifest`.
	Registrar *Peer `yaml:"registrar"`
}

// TLS is a certificate for mutual TLS 1.3 between processes. All files are PEM, and are read again when they change.
type TLS struct {
	// Certificate is the file of the certificate and its chain. Its only URI, a SPIFFE id, names the process.
	Certificate string `yaml:"certificate" is:"public"`
	// Key is the file of the certificate's key, perhaps the same file.
	Key string `yaml:"key" is:"secret"`
	// Token is the file of a pod's token, for which the registrar issues a certificate, instead of `certificate` and
	// `key`.
	Token string `yaml:"token" is:"secret"`
	// Authorities is the file of the authorities that certify the other processes.
	Authorities string `yaml:"authorities" is:"public" need:"yes"`
}

// Probes says where everyone may ask for metrics and health.
type Probes struct {
	// Listen is a host:port for GET /metrics, /healthz, /startupz and /readyz over plain HTTP.
	Listen string `yaml:"listen" is:"listen" need:"yes"`
}

// Agent names the agent's user. No process starts or forwards a post while this user can reach its memory or files.
type Agent struct {
	// UID is the user of agents that are not isolated. No other process may run as it (session_tainted). Without it, the
	// manifest's statements about the agent's access are not checked.
	UID *uint32 `yaml:"uid"`
	// GIDs are the agent's group ids, besides the one that equals `uid`.
	GIDs []uint32 `yaml:"gids"`
}

// Endpoint is an address on which a process listens for other processes and operators.
type Endpoint struct {
	// Unix is the path of a unix socket. Set this, `tcp` or both.
	Unix string `yaml:"unix" is:"socket" unique:"endpoint"`
	// UIDs are users that may connect to `unix`, besides the process's own user and root.
	UIDs []uint32 `yaml:"uids"`
	// TCP is a host:port, for mutual TLS. Only with `tls`.
	TCP string `yaml:"tcp" is:"listen" unique:"endpoint"`
	// Callers are the SPIFFE ids that may connect to `tcp`. A segment * matches any one segment.
	Callers []string `yaml:"callers"`
}

// Parts returns the unix socket and the TCP address, each as an endpoint of its own.
func (e Endpoint) Parts() (all []Endpoint) {
	if e.Unix != "" {
		all = append(all, Endpoint{Unix: e.Unix, UIDs: e.UIDs})
	}
	if e.TCP != "" {
		all = append(all, Endpoint{TCP: e.TCP, Callers: e.Callers})
	}
	return all
}

// Admin is an endpoint that operators without a certificate can reach too.
type Admin struct {
	Endpoint `yaml:",inline"`
	// Tokens admit operators at `tcp` who have no certificate.
	Tokens Tokens `yaml:"tokens"`
}

// Tokens are files, each with one token of at least 32 bytes. A changed file counts at once.
type Tokens struct {
	// Read is the file of a token that can only read.
	Read string `yaml:"read" is:"secret" least:"32"`
	// Operate is the file of a token for everything.
	Operate string `yaml:"operate" is:"secret" least:"32"`
}

// MinToken is the minimum length of a token, in bytes.
const MinToken = 32

// Peer is where another process answers.
type Peer struct {
	// Unix is the other process's unix socket. Set this or `tcp`.
	Unix string `yaml:"unix" is:"public" choice:"yes" unique:"endpoint"`
	// TCP is the other process's host:port, for mutual TLS. Only with `tls`.
	TCP string `yaml:"tcp" is:"peer" choice:"yes" unique:"endpoint"`
	// Name is the DNS name or SPIFFE id that the other process's certificate must have. Default: the host of `tcp`.
	Name string `yaml:"name"`
	// UID is the user that must answer at the unix socket, or nil for any.
	UID *uint32 `yaml:"-"`
}

type Postgres struct {
	// DSNFile holds a libpq connection string with its password; for a remote server, with sslmode=verify-full.
	DSNFile string `yaml:"dsnFile" is:"secret" need:"yes" least:"1"`

	// DSN is what DSNFile holds.
	DSN string `yaml:"-" of:"dsnFile"`
}

func (p *Postgres) Check(key string, f *findings) {
	if err := postgres.Check(p.DSN); err != nil && p.DSN != "" && !f.NoSecrets {
		f.Add(key+".dsnFile", "%v", err)
	}
}

// ConnString returns the DSN, or nothing without a database.
func (p *Postgres) ConnString() string {
	if p == nil {
		return ""
	}
	return p.DSN
}

// SigningKey configures one signing role.
type SigningKey struct {
	// Key is the name of the key, without a version.
	Key string `yaml:"key" need:"yes" unique:"key"`
	// Issuer is the iss claim of the key's tokens.
	Issuer string `yaml:"issuer" need:"yes" unique:"issuer"`
	// Lifetime is the validity of the key's tokens: exp - iat. Default 60s.
	Lifetime Duration `yaml:"lifetime" from:"1s" to:"10m"`
}

// Trust names the keys and the bundle that a process trusts.
type Trust struct {
	// Registry is the key registry's pinned public key (JWK).
	Registry string `yaml:"registry" is:"public" need:"yes"`
	// Auditor is the deployment auditor's pinned public key (JWK).
	Auditor string `yaml:"auditor" is:"public" need:"yes"`
	// Bundle is the trust bundle, reread when it changes.
	Bundle string `yaml:"bundle" is:"public" need:"yes"`
	// ClockSkew is the tolerated difference between clocks. Default 2s.
	ClockSkew Duration `yaml:"clockSkew" to:"1m"`
}

type Log struct {
	// Level: debug, info, warn or error.
	Level string `yaml:"level" one:"info debug warn error"`
}

// Confine says how a process confines itself before it listens. In any case it drops the capabilities that it does not
// need, writes no core dump, and cannot be debugged by its own user.
type Confine struct {
	// Landlock restricts files and TCP ports to configured ones: best_effort, required (Linux 6.12) or off.
	Landlock string `yaml:"landlock" one:"best_effort required off"`
	// Seccomp blocks unneeded system calls, such as those that start programs: required or off.
	Seccomp string `yaml:"seccomp" one:"required off"`
	// Read are further readable files and folders.
	Read []string `yaml:"read" is:"path"`
	// Write are further writable files and folders.
	Write []string `yaml:"write" is:"path"`
	// Connect are further TCP ports to connect to.
	Connect []uint16 `yaml:"connect"`
	// AnyPort allows every TCP port, so that a reload can add rules for new ones.
	AnyPort bool `yaml:"anyPort"`
}

// Duration is a duration such as 15s; zero where the file sets none.
type Duration = fields.Duration

// Time is a date or a time; zero where the file sets none.
type Time = fields.Time
