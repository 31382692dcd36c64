package daemon

import (
	"context"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/identity"
)

// exchange gets the process's TLS certificate from the registrar for a service account token, and waits for it. The key
// is only in memory. renew gets another one, for another key, when half of its lifetime is over.
func (p *Process) exchange(ctx context.Context, c config.TLS, at config.Peer) (renew func(context.Context), err error) {
	const failed = "the registrar gives this process no TLS certificate yet"
	ask := func(ctx context.Context, authorities []byte, take func(certificate, key, authorities string) error) error {
		certificate, key, all, err := identity.Exchange(ctx, c.Token, at.TCP, at.Name, authorities)
		if err != nil {
			return err
		}
		return take(certificate, key, all)
	}
	first, done := context.WithCancel(ctx)
	defer done()
	p.retrying(first, failed, func() error {
		authorities, err := files.Read(c.Authorities)
		if err != nil {
			return err
		}
		return ask(ctx, authorities, func(certificate, key, all string) (err error) {
			if p.Identity, err = identity.New(certificate, key, all); err == nil {
				done()
			}
			return err
		})
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		p.retrying(ctx, failed, func() error {
			if err := every.Sleep(ctx, max(time.Until(p.Identity.Until())/2, registrarPause)); err != nil {
				return err
			}
			return ask(ctx, p.Identity.Authorities(), p.Identity.Renew)
		})
	}, nil
}
