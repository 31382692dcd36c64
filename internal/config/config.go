// Package config holds the configuration of the processes: its types, how it is read and checked, and its reference.
//
//	sidecar.go, trigger.go, control.go, reputation.go   the four configuration files; config.go has the parts that they share
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
	"fmt"
	"time"
)

// This file has the parts that the configuration files share; the files themselves are in sidecar.go, trigger.go,
// control.go and reputation.go. Each file is decoded strictly: an unknown key, a duplicate key, a key without a value or a second
// document is an error with its line. A file never holds a secret, only the path of the file with the secret. Relative
// paths start at the configuration file's own folder. The comments of the fields are the configuration reference
// (docs/configuration.md). A reload takes over the keys with the tag reload; all other keys are bound to the process.

// Agent names the user that the agent runs as. A process that knows this user checks whether the user can reach the
// process's memory or files. While it can, the process does not start and forwards no post.
type Agent struct {
	// UID is the user of an agent that has no user of its own, as an isolated one has, and who runs nothing but agents that mediator run
	// starts: in the sidecar any other process of this user taints the sessions of agents that are not isolated. Default: the process does not look, and what the manifest says of the agent's reach is only declared.
	UID *uint32 `yaml:"uid"`
	// GIDs are the agent's groups besides the one with its user's number. Default none: mediator run gives it no others.
	GIDs []uint32 `yaml:"gids"`
}

// Endpoint is an address on which a process listens, or at which another process answers.
type Endpoint struct {
	// Unix is the path of a unix socket. Either this or TCP.
	Unix string `yaml:"unix" is:"path"`
	// UIDs are the users, besides the mediator's own and root, whose processes may connect to the socket. Default none.
	UIDs []uint32 `yaml:"uids"`
	// TCP is a host:port; it needs a token.
	TCP string `yaml:"tcp"`
	// TokenFile holds the bearer token that a TCP endpoint demands, at least 32 bytes.
	TokenFile string `yaml:"tokenFile" is:"path"`

	// Token is the content of TokenFile.
	Token string `yaml:"-" of:"tokenFile"`
}

// Postgres names a database.
type Postgres struct {
	// DSNFile holds the connection URL or keyword/value string, with its password, as libpq takes them. A server on another machine
	// needs sslmode=verify-full. What it leaves out comes from libpq's variables, such as PGHOST. Required.
	DSNFile string `yaml:"dsnFile" is:"path"`
}

// Custody says where the signing keys are.
type Custody struct {
	// Type is memory (keys that are made at each start, live in the process's memory alone and are never written out), vault (keys in
	// HashiCorp Vault's Transit engine) or pkcs11 (keys in a token, such as a hardware security module). Required.
	Type string `yaml:"type"`
	// Vault says where Vault is; only with type: vault.
	Vault *Vault `yaml:"vault"`
	// PKCS11 names the token; only with type: pkcs11.
	PKCS11 *PKCS11 `yaml:"pkcs11"`
}

// Vault says where Vault is and how this process logs in. Each signing role has a Vault role of its own. In a name or
// path of auth, {role} stands for the role: trigger_origin_proof, trigger_receipt, runtime_attestation, agent_session,
// request_proof, interaction_receipt, policy_decision, action_grant, appraiser, or api_credential for a credential.
type Vault struct {
	// Address is https://host:port. Required.
	Address string `yaml:"address"`
	// CA is the path of PEM certificates that sign Vault's certificate. Default: the system's.
	CA string `yaml:"ca" is:"path"`
	// Transit is the mount of the Transit engine. Default transit.
	Transit string `yaml:"transit"`
	// Timeout bounds each request to Vault. Default 2s.
	Timeout Duration `yaml:"timeout"`
	// Keys are the names of all signing keys of the deployment. That a role's token can use none but its own is looked at. Required.
	Keys []string `yaml:"keys"`
	// Auth says how to log in.
	Auth VaultAuth `yaml:"auth"`
}

// VaultAuth says how to log in to Vault. Exactly one of the methods is set.
type VaultAuth struct {
	// AppRole logs in with a role id and a secret id.
	AppRole *AppRole `yaml:"appRole"`
	// Kubernetes logs in with the pod's service account.
	Kubernetes *Kubernetes `yaml:"kubernetes"`
	// TokenFile is the path of a token that somebody else keeps, such as Vault Agent.
	TokenFile string `yaml:"tokenFile" is:"path"`
}

// AppRole configures AppRole.
type AppRole struct {
	// Mount of the auth method. Default approle.
	Mount string `yaml:"mount"`
	// Role is the name of the AppRole, such as mediator-{role}. Required.
	Role string `yaml:"role"`
	// RoleIDFile holds the role id. Required.
	RoleIDFile string `yaml:"roleIDFile" is:"path"`
	// SecretIDFile holds the secret id, or a response-wrapping token for it. It is read again at each login. Required.
	SecretIDFile string `yaml:"secretIDFile" is:"path"`
	// Unwrapped says that SecretIDFile holds the secret id itself. Default false: it holds a wrapping token, which is good once.
	Unwrapped bool `yaml:"unwrapped"`
}

// Kubernetes configures the Kubernetes auth method.
type Kubernetes struct {
	// Mount of the auth method. Default kubernetes.
	Mount string `yaml:"mount"`
	// Role is the name of Vault's role, such as mediator-{role}. Required.
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
	// Hardware declares that the token is a hardware module, where its slot does not say so. Default false.
	Hardware bool `yaml:"hardware"`
}

// RootKey names a root key that Vault or a PKCS #11 token holds.
type RootKey struct {
	File `yaml:"-"`

	// Purpose is signer_certificate for the key registry's key and deployment_certificate for the auditor's; {role} in custody.vault.auth
	// stands for it. Required.
	Purpose string `yaml:"purpose"`
	// Key is the name of the key, without a version. Required.
	Key string `yaml:"key"`
	// Version is the one that is pinned: what another version signs is refused by everyone. Default 1.
	Version int `yaml:"version"`
	// Custody says where the key is; its type is vault or pkcs11. Required.
	Custody Custody `yaml:"custody"`
}

// SigningKey configures one signing role.
type SigningKey struct {
	// Key is the name of the key, without a version. Required.
	Key string `yaml:"key"`
	// Issuer is the iss of what it signs. Required.
	Issuer string `yaml:"issuer"`
	// Lifetime is exp - iat of what it signs. Default 60s.
	Lifetime Duration `yaml:"lifetime"`
}

// Trust names the keys and the bundle that a process trusts.
type Trust struct {
	// Registry is the path of the pinned public key (JWK) of the key registry, which signs custody certificates. Required.
	Registry string `yaml:"registry" is:"path"`
	// Auditor is the path of the pinned public key (JWK) of the deployment auditor. Required.
	Auditor string `yaml:"auditor" is:"path"`
	// Bundle is the path of the trust bundle, as mediator keys certify writes it; it is read again when it changes. Required.
	Bundle string `yaml:"bundle" is:"path"`
	// ClockSkew is the clock difference that is tolerated, at most 1m. Default 2s.
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
	// Landlock holds the process to the folders of the files that this configuration names, and to its TCP ports: best_effort (as far as the
	// kernel can; the log and mediator doctor say how far), required (Linux 6.12 with Landlock, or the process does not start) or off.
	// Default best_effort.
	Landlock string `yaml:"landlock"`
	// Seccomp holds the process to the system calls of a program that starts no other: required or off. Default required.
	Seccomp string `yaml:"seccomp"`
	// Read are more files and folders that may be read, such as the settings of a PKCS #11 module. Default none.
	Read []string `yaml:"read" is:"path"`
	// Write are more files and folders that may be written as well, such as the store of a token in software. Default none.
	Write []string `yaml:"write" is:"path"`
	// Connect are more TCP ports to which it may connect, such as that of a token on the network. Default none.
	Connect []uint16 `yaml:"connect"`
	// AnyPort lets it connect to every TCP port, so that a reload takes rules for ports that nobody knew of at the start. Landlock does not
	// hold a process that is taken over to the ports of its rules then, and mediator doctor says so. Default false.
	AnyPort bool `yaml:"anyPort"`
}

// Duration is a time.Duration in the form 15s.
type Duration time.Duration

// UnmarshalText reads a duration such as 15s.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("must be a duration such as 15s, not %.40q", text)
	}
	*d = Duration(parsed)
	return nil
}

// RetentionOr returns how long something is kept: def if nothing is set, and forever if 0s is.
func (d *Duration) RetentionOr(def, forever time.Duration) time.Duration {
	switch {
	case d == nil:
		return def
	case *d == 0:
		return forever
	}
	return time.Duration(*d)
}

// Or returns d, or def if d is zero.
func (d Duration) Or(def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return time.Duration(d)
}
