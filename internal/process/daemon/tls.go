package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/internal/tracing"
	"github.com/actionproof/mediator/internal/wire"
)

// ListenTLS opens a TCP address that speaks only TLS, for everyone. Until ctx ends, group follows the files of the
// certificate and its key, so a renewal needs no restart.
func ListenTLS(ctx context.Context, group *errgroup.Group, address, certificate, key string,
	log *zap.Logger) (net.Listener, error) {
	s, err := identity.LoadServer(certificate, key)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	group.Go(func() error { s.Follow(ctx, log); return nil })
	return tls.NewListener(l, s.Config()), nil
}

func filesOf(c config.TLS) identity.Files {
	return identity.Files{Certificate: c.Certificate, Key: c.Key, Authorities: c.Authorities}
}

// loadIdentity reads the process's TLS certificate, if it has one, or gets it for a token.
func (p *Process) loadIdentity(ctx context.Context, c config.Process) (err error) {
	switch {
	case c.TLS == nil:
		return nil
	case c.TLS.Token != "":
		p.follow, err = p.exchange(ctx, *c.TLS, *c.Registrar)
	default:
		p.Identity, err = identity.Load(filesOf(*c.TLS))
		p.follow = func(ctx context.Context) { p.Identity.Follow(ctx, p.Log) }
	}
	if err != nil {
		return refusal.New("config_malformed", "tls: %w", err)
	}
	p.Log.Info("TLS certificate", zap.String("id", string(p.Identity.ID())), zap.Time("until", p.Identity.Until()))
	return nil
}

// KeepIdentity keeps the Identity current until ctx ends.
func (p *Process) KeepIdentity(ctx context.Context) { p.follow(ctx) }

// Client returns an HTTP client for another process, and the base of its URLs. Requests carry their trace.
func (p *Process) Client(at config.Peer) (*http.Client, string) {
	c, base := Client(at, p.Identity)
	if p.Tracing != nil {
		c.Transport = tracing.Transport(c.Transport)
	}
	return c, base
}

// strangerTimeout bounds how long the server still reads a request of a caller that it does not admit.
const strangerTimeout = time.Second

// admitting passes on the requests of the endpoint's callers, with their SPIFFE ids (see [wire.CallerOf]). It judges
// the certificate anew for each request, because a connection can outlive it. The kernel judges those of a unix socket.
func (p *Process) admitting(e config.Endpoint, next http.Handler) http.Handler {
	if e.Unix != "" {
		return next
	}
	log, bodies := flood.Logger(p.Log), share.NewBodies()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := p.Identity.Peer(r.TLS)
		if err == nil && !e.Admits(caller) {
			err = refusal.New("caller_unknown", "%s is not among the callers of this endpoint", caller)
		} else if err != nil {
			err = refusal.New("caller_unknown", "the caller's certificate is no longer valid: %w", err)
		}
		if err != nil {
			log.Warn("request refused", zap.String("caller", string(caller)), zap.Error(err))
			// net/http would wait for the rest of the body and for the next request, so a stranger could hold the connection.
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(strangerTimeout))
			problem.Write(w, err)
			return
		}
		body := bodies.Of(string(caller), r)
		defer body.End()
		r = r.WithContext(wire.WithCaller(r.Context(), wire.Caller{ID: string(caller), Runtime: caller.Path()}))
		r.Body = body
		next.ServeHTTP(w, r)
	})
}
