package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/internal/tracing"
	"github.com/actionproof/mediator/internal/wire"
)

// loadIdentity reads the process's TLS certificate, if it has one, or gets it for a token.
func (p *Process) loadIdentity(ctx context.Context, c config.Process) (err error) {
	switch {
	case c.TLS == nil:
		return nil
	case c.TLS.Token != "":
		p.follow, err = p.exchange(ctx, *c.TLS, *c.Registrar)
	default:
		p.Identity, err = identity.Load(identity.Files{Certificate: c.TLS.Certificate, Key: c.TLS.Key,
			Authorities: c.TLS.Authorities})
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
	c, base := endpoint.Client(at, p.Identity)
	if p.Tracing != nil {
		c.Transport = tracing.Transport(c.Transport)
	}
	return c, base
}

// strangerTimeout bounds how long the server still reads a request of a caller that it does not admit.
const strangerTimeout = time.Second

// callerCheck is the time between two checks of the caller of a request that lasts, as one that follows the calls does:
// the answer must not outlive the caller's certificate or token. It is a variable for the tests.
var callerCheck = 30 * time.Second

// admitting passes on the requests of the callers of an endpoint with one address, and names them (see
// [wire.CallerOf]). The kernel judges those of a unix socket.
func (p *Process) admitting(e config.Endpoint, tokens config.Tokens, next http.Handler) http.Handler {
	if e.Unix != "" {
		return next
	}
	log, bodies := flood.Logger(p.Log), share.NewBodies()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := p.callerOf(e, tokens, r)
		if err != nil {
			log.Warn("request refused", zap.String("caller", caller.ID), zap.Error(err))
			// net/http would wait for the rest of the body and for the next request, so a stranger could hold the
			// connection.
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(strangerTimeout))
			problem.Write(w, err)
			return
		}
		body := bodies.Of(caller.ID, r)
		defer body.End()
		ctx, end := context.WithCancel(r.Context())
		defer end()
		asked := r.Clone(ctx) // next may change the header
		long := time.AfterFunc(callerCheck, func() {
			for range every.Tick(ctx, callerCheck) {
				if caller, err := p.callerOf(e, tokens, asked); err != nil {
					log.Warn("a request was cut off", zap.String("caller", caller.ID), zap.Error(err))
					end()
				}
			}
		})
		defer long.Stop()
		r = r.WithContext(wire.WithCaller(ctx, caller))
		r.Body = body
		next.ServeHTTP(w, r)
	})
}

// callerOf returns who sends a request over TCP, or refuses it: the caller's token counts, or else its certificate.
// That is judged anew for each request, because a connection can outlive it.
func (p *Process) callerOf(e config.Endpoint, tokens config.Tokens, r *http.Request) (wire.Caller, error) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && tokens != (config.Tokens{}) {
		return callerBy(tokens, token, r.Method)
	}
	id, err := p.Identity.Peer(r.TLS)
	caller := wire.Caller{ID: string(id), Runtime: id.Path()}
	switch {
	case err != nil:
		return caller, refusal.New("caller_unknown", "the caller has no valid certificate: %w", err)
	case !e.Admits(id):
		return caller, refusal.New("caller_unknown", "%s is not among the callers of this endpoint", id)
	}
	return caller, nil
}

// callerBy returns the caller with a token. It reads the files each time, so that an operator can replace a token.
func callerBy(tokens config.Tokens, token, method string) (wire.Caller, error) {
	given := sha256.Sum256([]byte(token))
	var unread error
	for _, t := range [...]struct {
		name, path string
		reads      bool
	}{{"operate", tokens.Operate, false}, {"read", tokens.Read, true}} {
		if t.path == "" {
			continue
		}
		secret, err := files.ReadSecret(t.path, config.MinToken)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		known := sha256.Sum256([]byte(secret))
		switch caller := (wire.Caller{ID: "token:" + t.name}); {
		case subtle.ConstantTimeCompare(given[:], known[:]) == 0:
		case t.reads && method != http.MethodGet:
			return caller, refusal.New("caller_unknown", "this token can only read: %s needs the operate token", method)
		default:
			return caller, nil
		}
	}
	return wire.Caller{}, errors.Join(refusal.New("caller_unknown", "this endpoint knows no such token"), unread)
}
