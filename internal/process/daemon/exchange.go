package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/identity"
)

// exchange gets the process's TLS certificate from the registrar for a service account token, and waits for it. The key
// is only in memory. renew gets another one, for another key, when half of its lifetime is over.
func (p *Process) exchange(ctx context.Context, c config.TLS, at config.Peer) (renew func(context.Context), err error) {
	failing := ""
	failed := func(err error) {
		if code := CodeOf(err); ctx.Err() == nil && code != failing {
			p.Log.Error("the registrar gives this process no TLS certificate yet", zap.Error(err), zap.String("code", code))
			failing = code
		}
	}
	authorities, err := files.Read(c.Authorities)
	for err != nil || p.Identity == nil {
		var certificate, key, all string
		if certificate, key, all, err = identity.Exchange(ctx, c.Token, at.TCP, at.Name, authorities); err == nil {
			p.Identity, err = identity.New(certificate, key, all)
		}
		if err != nil {
			failed(err)
			if authorities, err = files.Read(c.Authorities); err != nil {
				failed(err)
			}
			if !pause(ctx, registrarPause) {
				return nil, ctx.Err()
			}
		}
	}
	return func(ctx context.Context) {
		for pause(ctx, time.Until(p.Identity.Until())/2) {
			certificate, key, all, err := identity.Exchange(ctx, c.Token, at.TCP, at.Name,
				p.Identity.Authorities())
			if err == nil {
				err = p.Identity.Renew(certificate, key, all)
			}
			if failing = ""; err != nil {
				failed(err)
			}
		}
	}, nil
}

// pause waits a second at least. It returns false once ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(max(d, registrarPause)):
		return true
	}
}
