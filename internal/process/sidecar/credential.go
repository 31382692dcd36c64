package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/proxy/credential"
)

const credentialRole = "api_credential"

// credentials holds the credentials of one configuration.
type credentials struct {
	byRule map[string]*credential.Credential
	// inVault tries what the credentials need of Vault, by its description. It needs a login: see read.
	inVault map[string]func(context.Context) error
	// tokens are the sources of tokens, by their configuration. Rules can share one, and a reload keeps it: a refresh
	// token is used once.
	tokens map[string]credential.Source
}

// makeCredentials makes the credentials of the rules.
func (p *sidecar) makeCredentials(c *config.Sidecar) (credentials, error) {
	all := credentials{make(map[string]*credential.Credential), make(map[string]func(context.Context) error),
		make(map[string]credential.Source)}
	shared := make(map[string]*vault.Secret) // rules can name the same secret
	for rule, r := range c.Credentials() {
		form, err := r.Form()
		if err != nil {
			return all, err
		}
		var source credential.Source
		switch {
		case r.OAuth != nil:
			source = p.token(all, *r.OAuth, func() credential.Source {
				return credential.OAuth(r.OAuth.Options(c.State, p))
			})
		case r.Google != nil:
			source = p.token(all, *r.Google, func() credential.Source { return credential.Google(r.Google.Options(p)) })
		case r.Vault != nil:
			source, err = p.inVault(strings.ReplaceAll(r.Vault.Path, "{rule}", rule), r.Vault.Fields(r), shared)
			all.inVault["the credential of the rule "+rule+" in Vault"] = func(ctx context.Context) error {
				_, err := source.Current(ctx)
				return err
			}
		case r.GitHubApp != nil:
			source, err = p.githubApp(all, r.GitHubApp)
		default:
			source, err = credential.File(r.File, r.Parse())
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

// token returns the source of tokens for a configuration, made by create if there is none yet.
func (p *sidecar) token(all credentials, of any, create func() credential.Source) credential.Source {
	key := fmt.Sprintf("%T", of)
	if text, err := json.Marshal(of); err == nil {
		key += string(text)
	}
	if all.tokens[key] == nil && p.current != nil {
		all.tokens[key] = p.current.credentials.tokens[key]
	}
	if all.tokens[key] == nil {
		all.tokens[key] = create()
	}
	return all.tokens[key]
}

// RoundTrip reaches token endpoints as upstreams are reached by the present configuration.
func (p *sidecar) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.transport.Load().RoundTrip(r)
}

func (p *sidecar) inVault(path string, fields credential.Fields, shared map[string]*vault.Secret) (
	credential.Source, error) {
	if err := p.prepareVault(); err != nil {
		return nil, err
	}
	if shared[path] == nil {
		shared[path] = p.secrets.Secret(path)
	}
	return credential.Vault(shared[path], fields), nil
}

// prepareVault prepares Vault for credentials.
func (p *sidecar) prepareVault() (err error) {
	if p.secrets == nil {
		p.secrets, err = keystore.Secrets(p.Keys, credentialRole)
	}
	return err
}

// githubApp returns the source of tokens for a GitHub App, whose key may be in Vault.
func (p *sidecar) githubApp(all credentials, g *secrets.GitHubApp) (credential.Source, error) {
	var sign credential.Signer
	if g.VaultKey != "" {
		if err := p.prepareVault(); err != nil {
			return nil, err
		}
		sign = func(ctx context.Context, message []byte) ([]byte, error) {
			return p.secrets.SignRS256(ctx, g.VaultKey, message)
		}
		all.inVault["the key "+g.VaultKey+" in Vault"] = func(ctx context.Context) error {
			_, err := sign(ctx, []byte("mediator")) // which is no JWT
			return err
		}
	}
	return p.token(all, *g, func() credential.Source { return credential.GitHubApp(g.Options(p, sign)) }), nil
}

// read tries once what the credentials need of Vault. With mayWait it waits until Vault gives it.
func (c credentials) read(ctx context.Context, log *zap.Logger, mayWait bool) (err error) {
	for what, try := range c.inVault {
		if mayWait {
			_, err = await.For(ctx, log, what, nil, func() (struct{}, error) { return struct{}{}, try(ctx) })
		} else {
			err = try(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
