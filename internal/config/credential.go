package config

import (
	"cmp"
	"fmt"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/generate"
)

// checkCredential checks the credential of a rule, if it has one. It reads a secret in a file once.
func (c *Sidecar) checkCredential(key string, r *Credential, f *findings) {
	if r == nil {
		return
	}
	switch {
	case (r.File == "") == (r.Vault == nil):
		f.Add(key, "needs either file or vault")
	case r.Vault == nil:
		if err := checkSecretFile(r, f); err != nil {
			f.Add(key+".file", "%v", err)
		}
	case c.Custody.Vault == nil:
		f.Add(key+".vault", "needs custody.type: vault")
	}
	if err := forward.CheckCredential(r.HeaderName(), r.Prefix); err != nil {
		f.Add(key, "%v", err)
	}
}

func checkSecretFile(r *Credential, f *findings) error {
	secret, err := f.secret(r.File, 1)
	if err != nil {
		return err
	}
	if !httpguts.ValidHeaderFieldValue(secret) {
		return fmt.Errorf("%s holds a character that no header can carry, such as a line end", r.File)
	}
	if _, err := echo.New(r.Prefix, secret, r.Half()); err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	return nil
}

// Half returns which half of a Basic credential is secret.
func (r *Credential) Half() echo.Half { return cmp.Or(echo.Half(r.BasicSecret), echo.Auto) }

// HeaderName returns the name of the header that carries the credential.
func (r *Credential) HeaderName() string { return cmp.Or(r.Header, "Authorization") }

// Generate says which models agents can ask the mediator for.
type Generate struct {
	// Models are the offered models; two rules cannot offer the same one. The first rule's first model is the default.
	Models []string `yaml:"models" need:"yes"`
	// MaxTokens is the most tokens that an agent may request, and the number it gets by default. Default 1024.
	MaxTokens int `yaml:"maxTokens"`
}

// parse returns the models that a rule offers; nil if it offers none. [rules.New] checks whether the rule can.
func (g *Generate) parse(key string, f *findings) *generate.Rule {
	if g == nil || len(g.Models) == 0 {
		return nil
	}
	out := &generate.Rule{Models: g.Models, MaxTokens: cmp.Or(g.MaxTokens, 1024)}
	if err := out.Check(); err != nil {
		f.Add(key, "%v", err)
	}
	return out
}
