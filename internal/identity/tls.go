package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config returns the TLS configuration of a listener for peers. A connection without a certificate of the authorities
// fails. The listener judges each request by [Identity.Peer] again: a connection can outlive a certificate.
func (i *Identity) Config() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &i.now.Load().pair, nil },
		ClientAuth:             tls.RequireAnyClientCert, // which VerifyConnection verifies, by the authorities of now
		SessionTicketsDisabled: true,                     // a ticket could outlive an authority
		VerifyConnection: func(c tls.ConnectionState) error {
			if _, err := i.Peer(&c); err != nil {
				return fmt.Errorf("the client's certificate: %w", err)
			}
			return nil
		},
	}
}

// OpenConfig is [Identity.Config] for a listener that also admits clients without a certificate.
func (i *Identity) OpenConfig() *tls.Config {
	c := i.Config()
	verify := c.VerifyConnection
	c.ClientAuth, c.VerifyConnection = tls.RequestClientCert, func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return verify(s)
	}
	return c
}

// Peer returns the id of the client on the other side of a connection, whose certificate is valid now.
func (i *Identity) Peer(c *tls.ConnectionState) (ID, error) {
	if c == nil {
		return "", errors.New("the connection has no TLS")
	}
	return i.now.Load().verify(c.PeerCertificates, x509.ExtKeyUsageClientAuth)
}

func (s *state) verify(chain []*x509.Certificate, use x509.ExtKeyUsage) (ID, error) {
	if len(chain) == 0 {
		return "", errors.New("there is no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: s.authorities, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{use}})
	if err != nil {
		return "", err
	}
	return of(chain[0])
}

// CheckName refuses what is neither a DNS name, an IP address nor a SPIFFE id.
func CheckName(name string) error {
	_, err := parse(name)
	if net.ParseIP(name) == nil && (strings.ContainsAny(name, "/*:@ ") && err != nil || name == "") {
		return fmt.Errorf("%.200q is neither a host name, such as control.example, nor a SPIFFE id", name)
	}
	return nil
}

// Transport returns a transport for mutual TLS with the process of a name: a DNS name, an IP address or a SPIFFE id.
// base makes one without TLS. A new certificate of this process is for new connections: those with an earlier one close
// once their requests end. A server without that name fails with a [tls.CertificateVerificationError].
func (i *Identity) Transport(name string, base func() *http.Transport) http.RoundTripper {
	return &transport{identity: i, name: name, base: base}
}

const handshakeTimeout = 10 * time.Second

type transport struct {
	identity *Identity
	name     string
	base     func() *http.Transport

	mu  sync.Mutex // guards all below
	of  *state
	now *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := t.identity.now.Load().token; token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return t.current().RoundTrip(r)
}

// CloseIdleConnections is for [http.Client].
func (t *transport) CloseIdleConnections() { t.current().CloseIdleConnections() }

func (t *transport) current() *http.Transport {
	now := t.identity.now.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == now {
		return t.now
	}
	if t.now != nil {
		t.now.CloseIdleConnections() // and those in use, once they become idle
	}
	t.of, t.now = now, t.base()
	t.now.TLSClientConfig, t.now.TLSHandshakeTimeout = now.client(t.name), handshakeTimeout
	return t.now
}

// Dial connects to the process of a name (see [Identity.Transport]) at an address, and returns its id.
func (i *Identity) Dial(ctx context.Context, address, name string) (*tls.Conn, ID, error) {
	d := tls.Dialer{Config: i.now.Load().client(name)}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, "", err
	}
	over := c.(*tls.Conn)
	id, err := of(over.ConnectionState().PeerCertificates[0])
	return over, id, err
}

func (s *state) client(name string) *tls.Config {
	host := name
	if strings.Contains(name, "/") {
		host = "" // a SPIFFE id; the server has one certificate
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host, Certificates: []tls.Certificate{s.pair},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies: crypto/tls knows no SPIFFE ids
		VerifyConnection: func(c tls.ConnectionState) error {
			id, err := s.verify(c.PeerCertificates, x509.ExtKeyUsageServerAuth)
			switch {
			case err != nil:
			case host != "":
				err = c.PeerCertificates[0].VerifyHostname(host)
			case string(id) != name:
				err = fmt.Errorf("it names %s", id)
			}
			if err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: c.PeerCertificates,
					Err: fmt.Errorf("not valid for %s: %w", name, err)}
			}
			return nil
		},
	}
}
