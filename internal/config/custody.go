package config

import (
	"cmp"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// For returns how one role logs in. It replaces {role}, and sets the default path of a Kubernetes token.
func (a VaultAuth) For(role string) VaultAuth {
	in := func(s string) string { return strings.ReplaceAll(s, "{role}", role) }
	a.TokenFile = in(a.TokenFile)
	if a.AppRole != nil {
		r := *a.AppRole
		r.Role, r.RoleIDFile, r.SecretIDFile = in(r.Role), in(r.RoleIDFile), in(r.SecretIDFile)
		a.AppRole = &r
	}
	if a.Kubernetes != nil {
		k := *a.Kubernetes
		k.Role, k.TokenFile = in(k.Role), in(cmp.Or(k.TokenFile, serviceAccountToken))
		a.Kubernetes = &k
	}
	return a
}

func (a VaultAuth) secrets(role string) []string {
	switch a = a.For(role); {
	case a.AppRole != nil:
		return []string{a.AppRole.RoleIDFile, a.AppRole.SecretIDFile}
	case a.Kubernetes != nil:
		return []string{a.Kubernetes.TokenFile}
	default:
		return []string{a.TokenFile}
	}
}

// SecretFiles returns the custody's secret files for some roles of the process.
func (c Custody) SecretFiles(roles ...string) (out []string) {
	switch {
	case c.Vault != nil:
		for _, role := range roles {
			out = append(out, c.Vault.Auth.secrets(role)...)
		}
	case c.PKCS11 != nil:
		out = []string{c.PKCS11.PINFile}
	}
	return out
}

// PublicFiles returns further files of the custody. An agent that could change them could pose as the custody.
func (c Custody) PublicFiles() []string {
	switch {
	case c.Vault != nil:
		return []string{c.Vault.CA}
	case c.PKCS11 != nil:
		return []string{c.PKCS11.Module}
	}
	return nil
}

// Addresses returns where the custody is reached over TCP. Port 53 is for DNS over TCP, to resolve Vault's name.
func (c Custody) Addresses() []string {
	if c.Vault == nil {
		return nil
	}
	return []string{c.Vault.Address, "53"}
}

// RootPurposes are the purposes of root keys.
var RootPurposes = []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate}

// LoadRootKey reads and checks a file that names a root key in Vault or in a token.
func LoadRootKey(path string) (*RootKey, error) { return read(path, (*RootKey).checkAll) }

func (c *RootKey) checkAll(f *findings) {
	if c.Custody.Type == "memory" {
		f.Add("custody.type", "must be vault or pkcs11: a root key outlives the command that signs with it")
	}
}
