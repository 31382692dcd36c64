// Package secrets has the sections of configurations that say where a process has its secrets: custody, which keeps its
// signing keys, and the credentials of APIs.
package secrets

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/echo"
)

// Credential is a secret that the mediator puts into calls. An answer that repeats it to the agent is cut off.
type Credential struct {
	// Header carries the secret. Default Authorization. Set at most one of `header`, `basic`, `query`, `cookie`, `aws`.
	Header string `yaml:"header"`
	// Prefix precedes the secret in the header. Default for tokens in Authorization: "Bearer ".
	Prefix string `yaml:"prefix"`
	// Basic sends a user and a password (RFC 7617).
	Basic *Basic `yaml:"basic"`
	// Query is the query parameter that carries the secret. Evidence and records omit it.
	Query string `yaml:"query"`
	// Cookie is the cookie that carries the secret, in place of all cookies of the agent.
	Cookie string `yaml:"cookie"`
	// AWS signs calls by AWS Signature Version 4 or 4A, and buffers their bodies, up to 33554432 bytes.
	AWS *AWS `yaml:"aws"`
	// BasicSecret is the part of a Basic credential that no answer may repeat: password, user, both or auto (the user if
	// the password is short, x-oauth-basic or api_token; otherwise the password).
	BasicSecret string `yaml:"basicSecret" one:"auto password user both"`
	// File holds the secret of at least 8 bytes, for `aws` a shared credentials file with one profile. Reread after a 401,
	// for `aws` also after a 400 or 403. Set one of `file`, `vault`, `oauth`, `google`, `githubApp`.
	File string `yaml:"file" is:"secret" choice:"yes"`
	// Vault reads the secret from custody's Vault as role api_credential: again after a 401, and before its lease ends
	// (each minute if it has none).
	Vault *VaultSecret `yaml:"vault" choice:"yes"`
	// OAuth gets an access token from an OAuth 2.0 token endpoint.
	OAuth *OAuth `yaml:"oauth" choice:"yes"`
	// Google gets an access token for a service account.
	Google *Google `yaml:"google" choice:"yes"`
	// GitHubApp gets tokens for a GitHub App.
	GitHubApp *GitHubApp `yaml:"githubApp" choice:"yes"`
}

// Basic is a user with a password, the secret.
type Basic struct {
	// User is the user. Default: Vault's field username, or the secret's part before its first colon.
	User string `yaml:"user"`
}

// VaultSecret is a secret in Vault.
type VaultSecret struct {
	// Path is the argument of vault read, such as kv/data/github (KV version 2) or github/token (a temporary secret).
	// {rule} becomes the rule's name.
	Path string `yaml:"path" need:"yes"`
	// Field is the field with the secret. Required, except with `basic` (default: username and password) and `aws`
	// (access_key, secret_key, perhaps security_token).
	Field string `yaml:"field"`
	// Version is the secret's version (KV version 2). Default: the latest.
	Version int `yaml:"version"`
}

// AWS is what an access key signs for.
type AWS struct {
	// Service is the service's signing name, such as s3 or execute-api.
	Service string `yaml:"service" need:"yes"`
	// Regions is one region, or for Version 4A several, or "*".
	Regions []string `yaml:"regions" need:"yes"`
}

// hasToken reports whether the source gives a bearer token.
func (r *Credential) hasToken() bool { return r.OAuth != nil || r.Google != nil || r.GitHubApp != nil }

// Form returns how the credential is applied to a call.
func (r *Credential) Form() (credential.Form, error) {
	half := cmp.Or(echo.Half(r.BasicSecret), echo.Auto)
	switch {
	case r.Basic != nil:
		return credential.Basic(r.Basic.User, half)
	case r.Query != "":
		return credential.Query(r.Query)
	case r.Cookie != "":
		return credential.Cookie(r.Cookie)
	case r.AWS != nil:
		return credential.AWS(credential.AWSOptions{Service: r.AWS.Service, Regions: r.AWS.Regions, Now: time.Now})
	}
	prefix := r.Prefix
	if prefix == "" && r.Header == "" && r.hasToken() {
		prefix = "Bearer "
	}
	return credential.Header(cmp.Or(r.Header, "Authorization"), prefix, half)
}

// forms are the keys that are set and say where the credential goes: at most one.
func (r *Credential) forms() (set []string) {
	for _, form := range []struct {
		key string
		set bool
	}{{"header", r.Header != "" || r.Prefix != ""}, {"basic", r.Basic != nil}, {"query", r.Query != ""},
		{"cookie", r.Cookie != ""}, {"aws", r.AWS != nil}} {
		if form.set {
			set = append(set, form.key)
		}
	}
	return set
}

// form returns the key that says where the credential goes.
func (r *Credential) form() string { return append(r.forms(), "header")[0] }

// Check implements [fields.Checker]. It reads a secret in a file once.
func (r *Credential) Check(key string, f *fields.Findings) {
	if set := r.forms(); len(set) > 1 {
		f.Add(key+"."+set[1], "a credential goes to one place only, and this one has %s", set[0])
		return
	}
	if r.form() != "header" && r.form() != "basic" && r.BasicSecret != string(echo.Auto) {
		f.Add(key+".basicSecret", "has no meaning with %s, which is no Basic credential", r.form())
	}
	if r.hasToken() && (r.AWS != nil || r.Basic != nil && r.Basic.User == "") {
		f.Add(key+"."+r.form(), "needs more than a token: a file or vault")
	}
	if r.Vault != nil {
		r.Vault.checkFields(key+".vault", r, f)
	}
	if r.AWS != nil && (r.AWS.Service == "" || len(r.AWS.Regions) == 0) {
		return // their tags have said so
	}
	form, err := r.Form()
	if err != nil {
		f.Add(key+"."+r.form(), "%v", err)
	} else if r.File != "" {
		if err := r.checkFile(form, f); err != nil {
			f.Add(key+".file", "%v", err)
		}
	}
}

// InVault returns the key of the credential that names something in Vault, or nothing.
func (r *Credential) InVault() string {
	switch {
	case r == nil:
	case r.Vault != nil:
		return "vault"
	case r.GitHubApp != nil && r.GitHubApp.VaultKey != "":
		return "githubApp.vaultKey"
	}
	return ""
}

// CheckForGate checks a credential for an API with a gate, which expects the access token in Authorization.
func (r *Credential) CheckForGate(key string, f *fields.Findings) {
	if r != nil && (r.form() != "header" || !strings.EqualFold(cmp.Or(r.Header, "Authorization"), "Authorization")) {
		f.Add(key+"."+r.form(), "must be header Authorization: an API with a gate expects the access token there")
	}
}

func (r *Credential) checkFile(form credential.Form, f *fields.Findings) error {
	secret, err := f.Secret(r.File, 1)
	if err != nil || f.NoSecrets {
		return err
	}
	v := credential.Value{Secret: secret}
	if parse := r.Parse(); parse != nil {
		v, err = parse(secret)
	}
	if err == nil {
		_, err = form.Find(v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	return nil
}

// Parse returns how to read the credential's file; nil takes it whole.
func (r *Credential) Parse() func(string) (credential.Value, error) {
	if r.AWS != nil {
		return credential.ParseAWSFile
	}
	return nil
}

func (v *VaultSecret) checkFields(key string, r *Credential, f *fields.Findings) {
	switch {
	case v.Fields(r).Secret == "":
		f.Add(key+".field", "is required")
	case v.Version > 0 && !strings.Contains(v.Path, "/data/"):
		f.Add(key+".version", "needs version 2 of the KV engine, whose paths have data/ after the mount")
	case r.AWS != nil && v.Field != "":
		f.Add(key+".field", "has no meaning with aws, which takes access_key, secret_key and security_token")
	}
}

// Fields returns the fields of the secret that the credential r takes.
func (v *VaultSecret) Fields(r *Credential) credential.Fields {
	if r.AWS != nil {
		return credential.Fields{ID: "access_key", Secret: "secret_key", Session: "security_token"}
	}
	if v.Field == "" && r.Basic != nil && r.Basic.User == "" {
		return credential.Fields{ID: "username", Secret: "password"}
	}
	return credential.Fields{Secret: v.Field}
}
