package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/proxy/credential"
)

const credentialRole = "api_credential"

// credentials holds the credentials of one configuration.
type credentials struct {
	byRule map[string]*credential.Credential
	// inVault tries what the credentials need of Vault, by its description. It needs a login: see read.
	inVault map[string]func(context.Context) error
	// tokens are the sources of tokens, by their configuration and secrets. Rules can share one, and a reload keeps it: a
	// refresh token is used once.
	tokens map[string]credential.Source
	// secrets are the secrets in Vault, by path and version. Rules can share one. A reload keeps those with a lease.
	secrets map[string]*vault.Secret
	// certificates are the client certificates, by rule.
	certificates map[string]*credential.Certificate
}

func (p *sidecar) makeCredentials(c *config.Sidecar) (all credentials, err error) {
	all = credentials{make(map[string]*credential.Credential), make(map[string]func(context.Context) error),
		make(map[string]credential.Source), make(map[string]*vault.Secret), make(map[string]*credential.Certificate)}
	if p.secrets == nil && usesVault(c) {
		if p.secrets, err = keystore.Secrets(p.Keys, credentialRole); err != nil {
			return all, err
		}
	}
	for _, r := range c.AllRules() {
		if r.Credential != nil {
			form, err := r.Credential.Form()
			if err != nil {
				return all, err
			}
			source, err := p.source(all, c.State, r.Name, r.Credential)
			if err != nil {
				return all, err
			}
			if all.byRule[r.Name], err = credential.New(source, form); err != nil {
				return all, err
			}
		}
		if r.ClientCertificate != nil {
			source := p.certificate(all, r.Name, r.ClientCertificate)
			all.certificates[r.Name] = credential.NewCertificate(r.Name, source, time.Now)
		}
	}
	return all, nil
}

func (p *sidecar) source(all credentials, state, rule string, r *secrets.Credential) (credential.Source, error) {
	switch {
	case r.OAuth != nil:
		return p.token(all, *r.OAuth, credential.OAuth(r.OAuth.Options(state, p)), r.OAuth.Files()...), nil
	case r.Google != nil:
		return p.token(all, *r.Google, credential.Google(r.Google.Options(p)), r.Google.KeyFile), nil
	case r.Vault != nil:
		source := p.inVault(all, rule, r)
		all.inVault["the credential of the rule "+rule+" in Vault"] = reading(source)
		return source, nil
	case r.GitHubApp != nil:
		return p.githubApp(all, r.GitHubApp), nil
	}
	return credential.File(r.File, r.Parse())
}

func (p *sidecar) certificate(all credentials, rule string, r *secrets.ClientCertificate) credential.Source {
	if r.Vault == nil {
		certificate, key := r.Files()
		return credential.CertificateFiles(certificate, key, time.Now)
	}
	source := p.token(all, *r.Vault,
		credential.VaultCertificate(p.secrets, r.Vault.Path, r.Vault.CommonName, time.Now))
	all.inVault["the client certificate of the rule "+rule+" in Vault"] = reading(source)
	return source
}

// reading returns a function that tries to read a source.
func reading(of credential.Source) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := of.Current(ctx)
		return err
	}
}

// token returns the source of tokens for a configuration and the present contents of its files: made, which has fetched
// nothing, if there is none yet.
func (p *sidecar) token(all credentials, of any, made credential.Source, paths ...string) credential.Source {
	key := fmt.Sprintf("%T", of)
	if text, err := json.Marshal(of); err == nil {
		key += string(text)
	}
	for _, path := range paths {
		secret, _ := files.ReadSecret(path, 1) // its use says what is wrong with it
		key += evidence.HashBytes([]byte(secret))
	}
	if now := p.current.Load(); all.tokens[key] == nil && now != nil {
		all.tokens[key] = now.credentials.tokens[key]
	}
	if all.tokens[key] == nil {
		all.tokens[key] = made
	}
	return all.tokens[key]
}

// RoundTrip reaches token endpoints as upstreams are reached by the present configuration.
func (p *sidecar) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.current.Load().transport.RoundTrip(r)
}

func (p *sidecar) inVault(all credentials, rule string, r *secrets.Credential) credential.Source {
	path := strings.ReplaceAll(r.Vault.Path, "{rule}", rule)
	key := fmt.Sprintf("%s version %d", path, r.Vault.Version)
	if now := p.current.Load(); all.secrets[key] == nil && now != nil {
		if old := now.credentials.secrets[key]; old != nil && old.Leased() {
			all.secrets[key] = old
		}
	}
	if all.secrets[key] == nil {
		all.secrets[key] = p.secrets.Secret(path, r.Vault.Version)
	}
	return credential.Vault(all.secrets[key], r.Vault.Fields(r))
}

// githubApp returns the source of tokens for a GitHub App, whose key may be in Vault.
func (p *sidecar) githubApp(all credentials, g *secrets.GitHubApp) credential.Source {
	var sign credential.Signer
	if g.VaultKey != "" {
		sign = func(ctx context.Context, message []byte) ([]byte, error) {
			return p.secrets.SignRS256(ctx, g.VaultKey, message)
		}
		all.inVault["the key "+g.VaultKey+" in Vault"] = func(ctx context.Context) error {
			_, err := sign(ctx, []byte("mediator")) // which is no JWT
			return err
		}
	}
	return p.token(all, *g, credential.GitHubApp(g.Options(p, sign)), g.KeyFile)
}

// read tries once what the credentials need of Vault. With mayWait it waits until Vault gives it.
func (c credentials) read(ctx context.Context, log *zap.Logger, mayWait bool) (err error) {
	for what, try := range c.inVault {
		if mayWait {
			err = await.For(ctx, log, what, nil, func() error { return try(ctx) })
		} else {
			err = try(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
