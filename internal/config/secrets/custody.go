package secrets

import (
	"cmp"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config/fields"
)

// Custody says where the signing keys are.
type Custody struct {
	// Type is memory (keys made at each start), vault (HashiCorp Vault's Transit engine) or pkcs11 (a hardware token).
	Type string `yaml:"type" need:"yes" one:"memory vault pkcs11"`
	// Vault locates Vault.
	Vault *Vault `yaml:"vault"`
	// PKCS11 names the token. A key's label is its name, the id its version.
	PKCS11 *PKCS11 `yaml:"pkcs11"`
}

// Vault locates Vault and says how this process logs in: once for each signing role.
type Vault struct {
	// Address is https://host:port.
	Address string `yaml:"address" need:"yes" is:"server"`
	// CA is a PEM file of authorities for Vault's certificate. Default: the system's.
	CA string `yaml:"ca" is:"public"`
	// Transit is the mount of the Transit engine. Default transit.
	Transit string `yaml:"transit"`
	// Keys are all the deployment's signing keys: each role's login must be able to use only its own.
	Keys []string `yaml:"keys" need:"yes"`
	// Auth is one of three logins. {role} is the key's purpose, such as runtime_attestation.
	Auth VaultAuth `yaml:"auth"`
}

// VaultAuth says how to log in to Vault.
type VaultAuth struct {
	// AppRole logs in with a role id and a secret id.
	AppRole *AppRole `yaml:"appRole" choice:"yes"`
	// Kubernetes logs in with the pod's service account.
	Kubernetes *Kubernetes `yaml:"kubernetes" choice:"yes"`
	// TokenFile holds a token that another program renews, such as Vault Agent.
	TokenFile string `yaml:"tokenFile" is:"path" choice:"yes"`
}

// AppRole is a login of a machine.
type AppRole struct {
	// Mount is the path of the auth method. Default approle.
	Mount string `yaml:"mount"`
	// Role is the AppRole, such as mediator-{role}.
	Role string `yaml:"role" need:"yes"`
	// RoleIDFile holds the role id.
	RoleIDFile string `yaml:"roleIDFile" is:"path" need:"yes"`
	// SecretIDFile holds a response-wrapping token for the secret id. Each login rereads it.
	SecretIDFile string `yaml:"secretIDFile" is:"path" need:"yes"`
	// Unwrapped: `secretIDFile` holds the secret id itself.
	Unwrapped bool `yaml:"unwrapped"`
}

// Kubernetes is a login of a pod.
type Kubernetes struct {
	// Mount is the path of the auth method. Default kubernetes.
	Mount string `yaml:"mount"`
	// Role is the Vault role, such as mediator-{role}.
	Role string `yaml:"role" need:"yes"`
	// TokenFile holds the service account's token. Default /var/run/secrets/kubernetes.io/serviceaccount/token.
	TokenFile string `yaml:"tokenFile" is:"path"`
}

// PKCS11 names a PKCS #11 token.
type PKCS11 struct {
	// Module is the token's library.
	Module string `yaml:"module" need:"yes" is:"library"`
	// Token is the token's label.
	Token string `yaml:"token" need:"yes"`
	// PINFile holds the token's user PIN.
	PINFile string `yaml:"pinFile" is:"secret" need:"yes"`
	// Hardware declares that the token is hardware, if its slot does not say so.
	Hardware bool `yaml:"hardware"`
}

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

// SecretFiles returns the files with which some roles of the process log in.
func (c Custody) SecretFiles(roles ...string) (out []string) {
	if c.Vault == nil {
		return nil
	}
	for _, role := range roles {
		out = append(out, c.Vault.Auth.secrets(role)...)
	}
	return out
}

func (c *Custody) Check(key string, f *fields.Findings) {
	if (c.Vault != nil) != (c.Type == "vault") {
		f.Add(key+".vault", "must be set if type is vault, and only then")
	}
	if (c.PKCS11 != nil) != (c.Type == "pkcs11") {
		f.Add(key+".pkcs11", "must be set if type is pkcs11, and only then")
	}
}

// Check demands {role} in each name or path: a token that all roles share could sign for all roles.
func (c *VaultAuth) Check(key string, f *fields.Findings) {
	perRole := func(name, value string) {
		if value != "" && !strings.Contains(value, "{role}") {
			f.Add(key+name, "%q is the same for every role: write {role} where the roles differ", value)
		}
	}
	if a := c.AppRole; a != nil {
		perRole(".appRole.role", a.Role)
		perRole(".appRole.roleIDFile", a.RoleIDFile)
		perRole(".appRole.secretIDFile", a.SecretIDFile)
	}
	if k := c.Kubernetes; k != nil {
		perRole(".kubernetes.role", k.Role)
	}
	perRole(".tokenFile", c.TokenFile)
}

// RootPurposes are the purposes of root keys.
var RootPurposes = []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate}
