package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy"
)

// credential checks what a rule injects; nil where it injects nothing.
func (s *sidecar) credential(key, rule string, c *credentialConfig, f *findings) *proxy.Credential {
	if c == nil {
		return nil
	}
	source := s.secretSource(key, rule, c, f)
	if source == nil {
		return nil
	}
	credential, err := proxy.NewCredential(cmp.Or(c.Header, "Authorization"), c.Prefix, source)
	if err != nil {
		f.add(key, "%v", err)
	}
	return credential
}

func (s *sidecar) secretSource(key, rule string, c *credentialConfig, f *findings) proxy.SecretSource {
	v := c.Vault
	switch {
	case (c.File == "") == (v == nil):
		f.add(key, "needs either file or vault")
	case v == nil:
		source, err := newFileSecret(s.file(c.File))
		if err == nil && !httpguts.ValidHeaderFieldValue(source.secret) {
			err = fmt.Errorf("%s holds what no header can, such as the end of a line", c.File)
		}
		if err == nil {
			return source
		}
		f.add(key+".file", "%v", err)
	case s.T.Custody.Vault == nil:
		f.add(key+".vault", "needs custody.type: vault")
	default:
		f.need(key+".vault.path", v.Path, key+".vault.field", v.Field)
		return s.vaultSecret(strings.ReplaceAll(v.Path, "{rule}", rule), v.Field)
	}
	return nil
}

// vaultSecret returns the one source of a secret, which rules can share.
func (s *sidecar) vaultSecret(path, field string) *vaultSecret {
	for _, v := range s.vaultSecrets {
		if v.path == path && v.field == field {
			return v
		}
	}
	v := &vaultSecret{path: path, field: field}
	s.vaultSecrets = append(s.vaultSecrets, v)
	return v
}

// fileSecret is a secret in a file, read at the start, and again after an upstream has refused it: whoever replaces a credential
// replaces the file.
type fileSecret struct {
	path string

	mu     sync.Mutex // guards all below
	secret string
	stale  bool
}

func newFileSecret(path string) (*fileSecret, error) {
	secret, err := readSecret(path, 1)
	return &fileSecret{path: path, secret: secret}, err
}

// Secret returns the secret.
func (f *fileSecret) Secret(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		secret, err := readSecret(f.path, 1)
		if err != nil {
			return "", refusal.New("credential_unavailable", "the file of the credential cannot be read any more")
		}
		f.secret, f.stale = secret, false
	}
	return f.secret, nil
}

// Refused has the file read again before the next use, unless the secret is another one by now.
func (f *fileSecret) Refused(secret string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = f.stale || secret == f.secret
}

// credentialRole is the role as which the sidecar reads API credentials.
const credentialRole = "api_credential"

// vaultSecret is a secret in Vault, which the rules name before there is a connection.
type vaultSecret struct {
	path, field string
	opened      *vault.Secret // before the first call
}

func (v *vaultSecret) Secret(ctx context.Context) (string, error) { return v.opened.Secret(ctx) }
func (v *vaultSecret) Refused(secret string)                      { v.opened.Refused(secret) }

// openSecrets reads the credentials of s that are in Vault, once, and waits for those that cannot be read yet where it may.
func (p *sidecarProcess) openSecrets(ctx context.Context, s *sidecar, o *observer, mayWait bool) error {
	if len(s.vaultSecrets) == 0 {
		return nil
	}
	ring, ok := p.keys.(vaultRing)
	if !ok {
		return fmt.Errorf("credentials in Vault need custody in Vault, not %T", p.keys)
	}
	if p.secrets == nil {
		p.secrets = ring.server.Secrets(ring.c.auth(credentialRole, s.file), ring.c.Keys...)
	}
	for _, v := range s.vaultSecrets {
		v.opened = p.secrets.Secret(v.path, v.field)
		read := func() (string, error) { return v.opened.Secret(ctx) }
		var err error
		if mayWait {
			_, err = waitFor(ctx, p.log, v.opened.String(), read)
		} else {
			_, err = read()
		}
		if err != nil {
			return err
		}
	}
	o.secrets = p.secrets
	return nil
}
