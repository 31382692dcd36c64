package sidecar

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/forward"
)

const credentialRole = "api_credential"

// makeCredentials makes the credentials of the rules, by the names of the rules. Those in Vault are unread: readSecrets
// reads them, which needs a login.
func (p *sidecar) makeCredentials(c *config.Sidecar) (map[string]*forward.Credential, []*vault.Secret, error) {
	all := make(map[string]*forward.Credential)
	shared := make(map[config.VaultSecret]*vault.Secret) // rules can name the same secret
	for rule, r := range c.Credentials() {
		var source forward.SecretSource
		var err error
		if r.Vault == nil {
			source, err = newFileSecret(r.File)
		} else {
			at := config.VaultSecret{Path: strings.ReplaceAll(r.Vault.Path, "{rule}", rule), Field: r.Vault.Field}
			if shared[at] == nil {
				shared[at], err = p.vaultSecret(at)
			}
			source = shared[at]
		}
		if err != nil {
			return nil, nil, err
		}
		if all[rule], err = forward.NewCredential(r.HeaderName(), r.Prefix, r.Half(), source); err != nil {
			return nil, nil, err
		}
	}
	return all, slices.Collect(maps.Values(shared)), nil
}

func (p *sidecar) vaultSecret(at config.VaultSecret) (_ *vault.Secret, err error) {
	if p.secrets == nil {
		if p.secrets, err = keystore.Secrets(p.Keys, credentialRole); err != nil {
			return nil, err
		}
	}
	return p.secrets.Secret(at.Path, at.Field), nil
}

// readSecrets reads each secret once. With mayWait it waits until Vault gives them.
func (p *sidecar) readSecrets(ctx context.Context, secrets []*vault.Secret, mayWait bool) (err error) {
	for _, s := range secrets {
		read := func() (string, error) { return s.Secret(ctx) }
		if mayWait {
			_, err = await.For(ctx, p.Log, s.String(), nil, read)
		} else {
			_, err = read()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fileSecret is a secret in a file. It is read at the start, and again after an upstream has refused it, so an operator
// replaces a credential by replacing the file.
type fileSecret struct {
	path string

	mu     sync.Mutex // guards the fields below
	secret string
	stale  bool
}

func newFileSecret(path string) (*fileSecret, error) {
	secret, err := files.ReadSecret(path, 1)
	return &fileSecret{path: path, secret: secret}, err
}

// Secret returns the secret.
func (f *fileSecret) Secret(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		secret, err := files.ReadSecret(f.path, 1)
		if err != nil {
			return "", refusal.New("custody_unavailable", "the file of the credential cannot be read any more")
		}
		f.secret, f.stale = secret, false
	}
	return f.secret, nil
}

// Refused makes the next use read the file again, unless the refused secret is no longer the current one.
func (f *fileSecret) Refused(secret string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = f.stale || secret == f.secret
}
