package config

import (
	"cmp"
	"strings"
)

// serviceAccountToken is where Kubernetes puts a pod's token.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// For returns how one role logs in: {role} in names and paths stands for the role, and a Kubernetes token has its path.
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

// secrets are the files with which one role logs in.
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

// Secrets are the custody's secret files, for the given roles of the process.
func (c Custody) Secrets(roles ...string) (out []string) {
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

// Public are the custody's files that are no secret, and by which somebody else could stand in for it.
func (c Custody) Public() []string {
	switch {
	case c.Vault != nil:
		return []string{c.Vault.CA}
	case c.PKCS11 != nil:
		return []string{c.PKCS11.Module}
	}
	return nil
}

// Addresses are where the custody is reached over TCP; the name of Vault's address may have to be asked for over TCP too.
func (c Custody) Addresses() []string {
	if c.Vault == nil {
		return nil
	}
	return []string{c.Vault.Address, "53"}
}
