package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Client authenticates a call at its host by a TLS certificate. The zero Client has none.
type Client struct {
	Name        string // tells clients apart; their certificates may be renewed
	Certificate *tls.Certificate
	Refused     func() // called when a host refuses the certificate; may be nil
}

// Format keeps the key out of logs and errors.
func (Client) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

// MarshalJSON does so too.
func (Client) MarshalJSON() ([]byte, error) { return []byte(`"REDACTED"`), nil }

type clientKey struct{}

// WithClient returns a context for requests that present the client's certificate. They use no connection of another
// client, nor of the same one with an earlier certificate. A host that does not ask for the certificate, or refuses it,
// is an error (upstream_client_refused).
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

func clientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// present puts the certificate into a handshake, even if the host names other authorities. asked then reports whether
// the host asked for it.
func (c Client) present(config *tls.Config) (asked func() bool) {
	if c.Certificate == nil {
		return func() bool { return true }
	}
	done := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		done = true
		return c.Certificate, nil
	}
	// A resumed session has its first connection's certificate, and would lend it to calls without one.
	config.ClientSessionCache = nil
	return func() bool { return done }
}

func (c Client) refused(host, why string, cause error) error {
	if c.Refused != nil {
		c.Refused()
	}
	return upstreamError{refusal.New("upstream_client_refused", "%s rejects the client certificate of the rule: %s",
		host, why), cause}
}

// alerts are those of RFC 8446 section 6.2 about a client certificate, as crypto/tls names them.
var alerts = []string{"bad certificate", "unsupported certificate", "revoked certificate", "expired certificate",
	"unknown certificate", "unknown certificate authority", "access denied", "certificate required"}

// notEstablished is what golang.org/x/net/http2 says, in place of the alert, if a connection ends before its first
// request is sent.
const notEstablished = "http2: client conn could not be established"

// explain makes the end of a handshake that the host does not accept a refusal of the certificate.
func (c Client) explain(host string, err error) error {
	var op *net.OpError
	switch {
	case c.Certificate == nil:
		return err
	case errors.As(err, &op) && op.Op == "remote error" &&
		slices.Contains(alerts, strings.TrimPrefix(op.Err.Error(), "tls: ")):
		said, _ := wire.HandshakeFailure(op, host)
		return c.refused(host, said, err)
	case err.Error() == notEstablished:
		return c.refused(host, "it closed the new connection", err)
	}
	return err
}

// watch returns a context that sees the connection of a request, and explain for the request's error. In TLS 1.3 the
// host judges the certificate when the request may be on its way.
func (c Client) watch(ctx context.Context, host string) (watched context.Context, explain func(error) error) {
	if c.Certificate == nil {
		return ctx, func(err error) error { return err }
	}
	var reused atomic.Bool // its handshake is over
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(got httptrace.GotConnInfo) { reused.Store(got.Reused) },
		}), func(err error) error {
			if reused.Load() || refusal.CodeOf(err) != "" {
				return err
			}
			return c.explain(host, err)
		}
}
