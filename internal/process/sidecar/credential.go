package sidecar

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/proxy/credential"
)

const credentialRole = "api_credential"

// credentials are those of one configuration.
type credentials struct {
	byRule map[string]*credential.Credential
	// inVault are the sources in Vault, by what they read. They need a login: see read.
	inVault map[string]credential.Source
}

// makeCredentials makes the credentials of the rules.
func (p *sidecar) makeCredentials(c *config.Sidecar) (all credentials, err error) {
	all = credentials{make(map[string]*credential.Credential), make(map[string]credential.Source)}
	shared := make(map[string]*vault.Secret) // rules can name the same secret
	for rule, r := range c.Credentials() {
		form, err := r.Form()
		if err != nil {
			return all, err
		}
		var source credential.Source
		if r.Vault == nil {
			source, err = credential.File(r.File, r.Parse())
		} else if source, err = p.inVault(rule, r, shared); err == nil {
			all.inVault["the credential of the rule "+rule+" in Vault"] = source
		}
		if err != nil {
			return all, err
		}
		if all.byRule[rule], err = credential.New(source, form); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (p *sidecar) inVault(rule string, r *config.Credential, shared map[string]*vault.Secret) (credential.Source, error) {
	if p.secrets == nil {
		var err error
		if p.secrets, err = keystore.Secrets(p.Keys, credentialRole); err != nil {
			return nil, err
		}
	}
	path := strings.ReplaceAll(r.Vault.Path, "{rule}", rule)
	if shared[path] == nil {
		shared[path] = p.secrets.Secret(path)
	}
	return credential.Vault(shared[path], r.Vault.Fields(r)), nil
}

// read reads each credential in Vault once. With mayWait it waits until Vault gives them.
func (c credentials) read(ctx context.Context, log *zap.Logger, mayWait bool) (err error) {
	for what, source := range c.inVault {
		read := func() (credential.Value, error) { return source.Current(ctx) }
		if mayWait {
			_, err = await.For(ctx, log, what, nil, read)
		} else {
			_, err = read()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
