package daemon

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/wire"
)

// exchange gets the process's TLS certificate from the registrar for a service account token, and waits for it. The key
// is only in memory. renew gets another one, for another key, when half of its lifetime is over.
func (p *Process) exchange(ctx context.Context, c config.TLS, at config.Peer) (renew func(context.Context), err error) {
	const failed = "the registrar gives this process no TLS certificate yet"
	err = await.Success(ctx, p.Log, registrarPause, failed, func() error {
		authorities, err := files.Read(c.Authorities)
		if err != nil {
			return err
		}
		return certify(ctx, c.Token, at, string(authorities), func(certificate, key, all string) (err error) {
			p.Identity, err = identity.New(certificate, key, all)
			return err
		})
	})
	return func(ctx context.Context) {
		p.repeating(ctx, failed, func() error {
			if err := every.Sleep(ctx, max(time.Until(p.Identity.Until())/2, registrarPause)); err != nil {
				return err
			}
			return certify(ctx, c.Token, at, p.Identity.Authorities(), p.Identity.Renew)
		})
	}, err
}

// certify makes a key, gets the registrar's certificate for it, and passes both to take, in PEM.
func certify(ctx context.Context, tokenFile string, at config.Peer, authorities string,
	take func(certificate, key, authorities string) error) error {
	token, err := files.ReadSecret(tokenFile, 1)
	if err != nil {
		return err
	}
	bearer, err := identity.NewBearer(strings.TrimSpace(token), authorities)
	if err != nil {
		return err
	}
	private, key, err := identity.NewKey()
	if err != nil {
		return err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, new(x509.CertificateRequest), private)
	if err != nil {
		return err
	}
	client, base := endpoint.Client(at, bearer)
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, registrarTimeout)
	defer cancel()
	var answer struct {
		Certificate string `json:"certificate"`
		Authorities string `json:"authorities"`
	}
	registrar := wire.Peer{HTTP: client, Name: "the registrar", Unavailable: "process_unavailable"}
	if err := registrar.Call(ctx, base+"/v1/certificates", map[string][]byte{"csr": request}, &answer); err != nil {
		return err
	}
	return take(answer.Certificate, key, answer.Authorities)
}
