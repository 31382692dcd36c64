// Package config holds the configuration of the processes: its types, how it is read and checked, and its reference.
//
//	sidecar.go, trigger.go, control.go, reputation.go   the four configuration files; config.go has shared parts
//	load.go      reads a file strictly, and makes its paths absolute
//	check*.go    check a file and report every finding at once
//	setup.go     the files beside it: manifest, policy, trust bundle, pinned root keys
//	custody.go   which files and addresses a custody uses
//	bound.go     which keys only a restart takes over
//	reference.go the reference page and the JSON Schema, made from the types and their comments
//
// A configuration does not change once it is loaded. This package opens no custody, no socket and no database.
package config

import (
	"errors"
	"fmt"
	"time"
)

// This file has the parts that the configuration files share; the files themselves are in sidecar.go, trigger.go,
// control.go and reputation.go. Each file is decoded strictly: an unknown key, a duplicate key, a key without a value or
// a second document is an error with its line. A file never holds a secret, only the path of the file with the secret. Relative
// paths start at the configuration file's own folder. The comments of the fields are the configuration reference
// (docs/configuration.md). A reload takes over the keys with the tag reload; all other keys are bound to the process.

// Agent names the user of the agent. A process that knows this user checks whether the user can reach the process's
// memory or files. While it can, the process does not start and forwards no post.
type Agent struct {
	// UID is the user of an agent that is not isolated. Only agents that mediator run starts may run as this user: any
	// other process of this user taints their sessions. Default: the process does not check what the agent can reach,
	// so the manifest's statements about it are only declared.
	UID *uint32 `yaml:"uid"`
	// GIDs are the agent's groups besides the one with its user's number. Default none: mediator run sets no others.
	GIDs []uint32 `yaml:"gids"`
}

// Endpoint is an address on which a process listens, or at which another process answers.
type Endpoint struct {
	// Unix is the path of a unix socket. Either unix or tcp.
	Unix string `yaml:"unix" is:"path"`
	// UIDs are users that may connect to the socket, besides the mediator's user and root. Default none.
	UIDs []uint32 `yaml:"uids"`
	// TCP is a host:port. It needs tokenFile.
	TCP string `yaml:"tcp"`
	// TokenFile holds the bearer token of a TCP endpoint, at least 32 bytes.
	TokenFile string `yaml:"tokenFile" is:"path"`

	// Token is the content of TokenFile.
	Token string `yaml:"-" of:"tokenFile"`
}

// Postgres names a database.
type Postgres struct {
	// DSNFile holds a libpq connection URL or keyword/value string, with its password. A remote server needs
	// sslmode=verify-full. Missing values come from libpq's variables, such as PGHOST. Required.
	DSNFile string `yaml:"dsnFile" is:"path"`
}

// Custody says where the signing keys are.
type Custody struct {
	// Type is memory (keys made at each start, never written), vault (HashiCorp Vault's Transit engine) or pkcs11 (a
	// token, such as a hardware security module). Required.
	Type string `yaml:"type"`
	// Vault locates Vault; only with type: vault.
	Vault *Vault `yaml:"vault"`
	// PKCS11 names the token; only with type: pkcs11. A private Ed25519 key's label is the key's name, and its id is
	// the version.
	PKCS11 *PKCS11 `yaml:"pkcs11"`
}

// Vault locates Vault and says how this process logs in. Each signing role has a Vault role of its own. In a name or
// path of auth, {role} is the role: trigger_origin_proof, trigger_receipt, runtime_attestation, agent_session,
// request_proof, interaction_receipt, policy_decision, action_grant, appraiser, or api_credential for a credential.
type Vault struct {
	// Address is https://host:port. Required.
	Address string `yaml:"address"`
	// CA is a PEM file of authorities for Vault's certificate. Default: the system's.
	CA string `yaml:"ca" is:"path"`
	// Transit is the mount of the Transit engine. Default transit.
	Transit string `yaml:"transit"`
	// Timeout bounds each request to Vault. Default 2s.
	Timeout Duration `yaml:"timeout"`
	// Keys are the names of all signing keys of the deployment. The process checks that a role's token can use only
	// its own key. Required.
	Keys []string `yaml:"keys"`
	// Auth is the login: exactly one of the following. {role} in its names and paths is the signing role, such as
	// runtime_attestation.
	Auth VaultAuth `yaml:"auth"`
}

// VaultAuth says how to log in to Vault. Exactly one of the methods is set.
type VaultAuth struct {
	// AppRole logs in with a role id and a secret id.
	AppRole *AppRole `yaml:"appRole"`
	// Kubernetes logs in with the pod's service account.
	Kubernetes *Kubernetes `yaml:"kubernetes"`
	// TokenFile is a token that another program renews, such as Vault Agent.
	TokenFile string `yaml:"tokenFile" is:"path"`
}

// AppRole configures AppRole.
type AppRole struct {
	// Mount is the path of the auth method. Default approle.
	Mount string `yaml:"mount"`
	// Role is the name of the AppRole, such as mediator-{role}. Required.
	Role string `yaml:"role"`
	// RoleIDFile holds the role id. Required.
	RoleIDFile string `yaml:"roleIDFile" is:"path"`
	// SecretIDFile holds a response-wrapping token for the secret id. It is read again at each login. Required.
	SecretIDFile string `yaml:"secretIDFile" is:"path"`
	// Unwrapped says that secretIDFile holds the secret id itself. Default false.
	Unwrapped bool `yaml:"unwrapped"`
}

// Kubernetes configures the Kubernetes auth method.
type Kubernetes struct {
	// Mount is the path of the auth method. Default kubernetes.
	Mount string `yaml:"mount"`
	// Role is the name of the Vault role, such as mediator-{role}. Required.
	Role string `yaml:"role"`
	// TokenFile is the service account's token. Default /var/run/secrets/kubernetes.io/serviceaccount/token.
	TokenFile string `yaml:"tokenFile" is:"path"`
}

// PKCS11 names a PKCS #11 token. The versions of a key are private Ed25519 keys with the key's name as label; their id
// is the version.
type PKCS11 struct {
	// Module is the path of the token's library. Required.
	Module string `yaml:"module"`
	// Token is the token's label. Required.
	Token string `yaml:"token"`
	// PINFile holds the PIN of the token's user. Required.
	PINFile string `yaml:"pinFile" is:"path"`
	// Hardware declares a hardware token if its slot does not report one. Default false.
	Hardware bool `yaml:"hardware"`
}

// RootKey names a root key that Vault or a PKCS #11 token holds.
type RootKey struct {
	File `yaml:"-"`

	// Purpose is signer_certificate for the key registry's key, and deployment_certificate for the auditor's. It
	// replaces {role} in custody.vault.auth. Required.
	Purpose string `yaml:"purpose"`
	// Key is the name of the key, without a version. Required.
	Key string `yaml:"key"`
	// Version is the pinned one. Signatures of other versions are refused everywhere. Default 1.
	Version int `yaml:"version"`
	// Custody is where the key is, of type vault or pkcs11. Required.
	Custody Custody `yaml:"custody"`
}

// SigningKey configures one signing role.
type SigningKey struct {
	// Key is the name of the key, without a version. Required.
	Key string `yaml:"key"`
	// Issuer is the iss of its signatures. Required.
	Issuer string `yaml:"issuer"`
	// Lifetime is exp - iat of its signatures. Default 60s.
	Lifetime Duration `yaml:"lifetime"`
}

// Trust names the keys and the bundle that a process trusts.
type Trust struct {
	// Registry is the pinned public key (JWK) of the key registry, which signs custody certificates. Required.
	Registry string `yaml:"registry" is:"path"`
	// Auditor is the pinned public key (JWK) of the deployment auditor. Required.
	Auditor string `yaml:"auditor" is:"path"`
	// Bundle is the trust bundle that mediator keys certify writes. It is read again when it changes. Required.
	Bundle string `yaml:"bundle" is:"path"`
	// ClockSkew is the tolerated difference of clocks, at most 1m. Default 2s.
	ClockSkew Duration `yaml:"clockSkew"`
}

// Log configures the log.
type Log struct {
	// Level is debug, info, warn or error. Default info.
	Level string `yaml:"level"`
}

// Confine says how a process confines itself before it listens. With every setting, the process drops capabilities that
// it does not need, writes no core dump, cannot be debugged by its own user, and gets no privileges by executing a
// program.
type Confine struct {
	// Landlock restricts the process to the configured files' folders and TCP ports: best_effort (the part that the
	// kernel supports; see mediator doctor), required (fails without Landlock of Linux 6.12) or off. Default
	// best_effort.
	Landlock string `yaml:"landlock"`
	// Seccomp blocks the system calls that the process does not need, such as those that start programs: required or
	// off. Default required.
	Seccomp string `yaml:"seccomp"`
	// Read are further readable files and folders, such as the settings of a PKCS #11 module. Default none.
	Read []string `yaml:"read" is:"path"`
	// Write are further writable files and folders, such as the store of a software token. Default none.
	Write []string `yaml:"write" is:"path"`
	// Connect are further TCP ports to connect to, such as that of a network token. Default none.
	Connect []uint16 `yaml:"connect"`
	// AnyPort allows connections to every TCP port, so that a reload can add rules for new ports. Landlock then no
	// longer restricts an attacker to the ports of the rules; mediator doctor reports this. Default false.
	AnyPort bool `yaml:"anyPort"`
}

// Duration is a time.Duration in the form 15s. Zero means that the file does not set it.
type Duration time.Duration

// UnmarshalText reads a duration such as 15s. It refuses 0s, which the default would replace unseen.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("must be a duration such as 15s, not %.40q", text)
	}
	if parsed == 0 {
		return errors.New("must be above 0s; leave it out for the default")
	}
	*d = Duration(parsed)
	return nil
}

// Retention is a period in the form 48h; 0s is for ever.
type Retention time.Duration

// UnmarshalText reads a retention such as 48h, or 0s.
func (r *Retention) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("must be a duration such as 48h, or 0s for ever, not %.40q", text)
	}
	*r = Retention(parsed)
	return nil
}

// Or returns how long something is kept: def if nothing is set, and forever if 0s is.
func (r *Retention) Or(def, forever time.Duration) time.Duration {
	switch {
	case r == nil:
		return def
	case *r == 0:
		return forever
	}
	return time.Duration(*r)
}

// Or returns d, or def if d is zero.
func (d Duration) Or(def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return time.Duration(d)
}
