package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
)

// serviceAccountToken is where Kubernetes puts a pod's token.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// check adds what is wrong with Vault's configuration to f. Names of the findings begin with key.
func (c *vaultConfig) check(key string, f *findings) {
	f.need(key+".address", c.Address)
	if len(c.Keys) == 0 {
		f.add(key+".keys", "is required")
	}
	methods := 0
	for _, set := range []bool{c.Auth.AppRole != nil, c.Auth.Kubernetes != nil, c.Auth.TokenFile != ""} {
		if set {
			methods++
		}
	}
	if methods != 1 {
		f.add(key+".auth", "needs exactly one of appRole, kubernetes, tokenFile")
	}
	// A token for each role: what is got with one name or one path for all could sign for all.
	apart := func(name, value string) {
		if f.need(name, value); value != "" && !strings.Contains(value, "{role}") {
			f.add(name, "%q is the same for every role: write {role} where they differ", value)
		}
	}
	if a := c.Auth.AppRole; a != nil {
		apart(key+".auth.appRole.role", a.Role)
		apart(key+".auth.appRole.roleIDFile", a.RoleIDFile)
		apart(key+".auth.appRole.secretIDFile", a.SecretIDFile)
	}
	if k := c.Auth.Kubernetes; k != nil {
		apart(key+".auth.kubernetes.role", k.Role)
	}
	if c.Auth.TokenFile != "" {
		apart(key+".auth.tokenFile", c.Auth.TokenFile)
	}
}

// auth is how one role logs in.
func (c *vaultConfig) auth(role string, file func(string) string) vault.Auth {
	in := func(s string) string { return strings.ReplaceAll(s, "{role}", role) }
	switch a := c.Auth; {
	case a.AppRole != nil:
		return &vault.AppRole{
			Mount: a.AppRole.Mount, Role: in(a.AppRole.Role), RoleIDFile: file(in(a.AppRole.RoleIDFile)), SecretIDFile: file(in(a.AppRole.SecretIDFile)),
			Wrapped: !a.AppRole.Unwrapped,
		}
	case a.Kubernetes != nil:
		token := a.Kubernetes.TokenFile
		token = cmp.Or(token, serviceAccountToken)
		return &vault.Kubernetes{Mount: a.Kubernetes.Mount, Role: in(a.Kubernetes.Role), JWTFile: file(in(token))}
	default:
		return &vault.TokenFile{Path: file(in(a.TokenFile))}
	}
}

// secrets are the files with which roles log in.
func (c *vaultConfig) secrets(roles []role) []string {
	var out []string
	for _, r := range roles {
		out = append(out, c.secretsOf(r.purpose)...)
	}
	return out
}

func (c *vaultConfig) secretsOf(role string) []string {
	var out []string
	for _, name := range c.secretFiles() {
		out = append(out, strings.ReplaceAll(name, "{role}", role))
	}
	return out
}

func (c *vaultConfig) secretFiles() []string {
	switch a := c.Auth; {
	case a.AppRole != nil:
		return []string{a.AppRole.RoleIDFile, a.AppRole.SecretIDFile}
	case a.Kubernetes != nil && a.Kubernetes.TokenFile != "":
		return []string{a.Kubernetes.TokenFile}
	case a.Kubernetes != nil:
		return []string{serviceAccountToken}
	default:
		return []string{a.TokenFile}
	}
}

// vaultRing opens keys in Vault.
type vaultRing struct {
	c      *vaultConfig
	file   func(string) string
	server *vault.Server
	log    *zap.Logger
}

func (c *vaultConfig) server(file func(string) string, log *zap.Logger) (*vault.Server, error) {
	return vault.NewServer(vault.Options{Address: c.Address, CAFile: file(c.CA), Mount: c.Transit, Timeout: time.Duration(c.Timeout), Log: log, Now: time.Now})
}

func (c *vaultConfig) keyring(file func(string) string, log *zap.Logger) (keyring, error) {
	server, err := c.server(file, log)
	if err != nil {
		return nil, err
	}
	return vaultRing{c, file, server, log}, nil
}

// key opens a key, and waits for Vault while it cannot be asked: it stays logged in meanwhile.
func (r vaultRing) key(ctx context.Context, purpose string, c keyConfig) (custody.Key, error) {
	key := r.server.Prepare(c.Key, r.c.auth(purpose, r.file), r.c.Keys...)
	return waitFor(ctx, r.log, "Vault", func() (*vault.Key, error) { return key, key.Open(ctx) })
}

func (r vaultRing) Close() error { return r.server.Close() }
