package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// tlsDialer connects and verifies as the Host entries say.
type tlsDialer struct {
	hosts   []Host
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration
	// configs has one entry for each Host, and a last one for all others. Sessions resume within one entry, so never
	// across different roots.
	configs []*tls.Config
}

func newTLSDialer(o *Options, connect func(context.Context, string, string) (net.Conn, error), protocols ...string,
) *tlsDialer {
	config := func(roots *x509.CertPool) *tls.Config {
		return &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			NextProtos:         protocols,
			ClientSessionCache: tls.NewLRUClientSessionCache(64),
			Time:               o.Now,
		}
	}
	d := &tlsDialer{hosts: o.Dialer.Hosts, connect: connect, timeout: cmp.Or(o.HandshakeTimeout, 15*time.Second)}
	for _, u := range o.Dialer.Hosts {
		d.configs = append(d.configs, config(cmp.Or(u.RootCAs, o.RootCAs)))
	}
	d.configs = append(d.configs, config(o.RootCAs))
	return d
}

// dial returns a verified connection. After an error nothing of a request was sent.
func (d *tlsDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := ParseAuthority(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	_, i := findHost(d.hosts, host, port)
	if i < 0 {
		i = len(d.configs) - 1
	}
	config := d.configs[i].Clone()
	config.ServerName = host
	client := clientOf(ctx)
	asked := client.present(config)
	handshake, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(handshake); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, client.explain(host, handshakeFailure(host, err))
	}
	if !asked() {
		_ = conn.Close()
		return nil, client.refused(host, "it asked for none in the TLS handshake", nil)
	}
	return secure, nil
}

func handshakeFailure(host string, err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return upstreamError{refusal.New("upstream_certificate_untrusted",
			"the certificate of %s could not be verified", host).ForOperator("%.300q", untrusted.Err), err}
	case errors.Is(err, context.DeadlineExceeded):
		return upstreamError{refusal.New("upstream_tls_failed", "%s did not complete the TLS handshake in time", host),
			err}
	}
	said, _ := wire.HandshakeFailure(err, host)
	return upstreamError{refusal.New("upstream_tls_failed", "the TLS handshake with %s failed: %s", host, said), err}
}
