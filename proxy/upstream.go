package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Upstream is what is known about one host, or the subdomains of one, beyond that it is on the Internet.
type Upstream struct {
	// Host is a host name or an IP address, or "*." and a domain for its subdomains.
	Host string
	// Port is any if 0.
	Port uint16
	// Address is dialled in place of what the name resolves to, if it is valid, on the call's own port if its port is 0. It has to be
	// one that may be dialled.
	Address netip.AddrPort
	// Networks are the prefixes that the host's addresses may be in besides the public ones.
	Networks []netip.Prefix
	// RootCAs verify the host's certificate in place of the default roots; nil leaves those.
	RootCAs *x509.CertPool
	// ServerName is sent as SNI and verified in the certificate; the host itself if empty.
	ServerName string
}

// findUpstream returns the first entry for host and port.
func findUpstream(list []Upstream, host string, port uint16) (Upstream, int) {
	i := slices.IndexFunc(list, func(u Upstream) bool {
		if u.Port != 0 && u.Port != port {
			return false
		}
		if domain, ok := strings.CutPrefix(u.Host, "*."); ok {
			return strings.HasSuffix(host, "."+domain)
		}
		return u.Host == host
	})
	if i < 0 {
		return Upstream{}, i
	}
	return list[i], i
}

// checkUpstreams normalises the hosts of a list and refuses what would never match or match too much.
func checkUpstreams(list []Upstream) ([]Upstream, error) {
	list = slices.Clone(list)
	for i, u := range list {
		domain, wild := strings.CutPrefix(u.Host, "*.")
		host, port, err := parseAuthority(domain)
		if addr, aerr := netip.ParseAddr(u.Host); aerr == nil && addr.Zone() == "" {
			host, port, err = addr.Unmap().String(), 0, nil
		}
		if err != nil || port != 0 {
			return nil, fmt.Errorf("proxy: upstream %q is neither a host nor *. and a domain", u.Host)
		}
		if list[i].Host = host; wild {
			list[i].Host = "*." + host
		}
		for _, p := range u.Networks {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
				return nil, fmt.Errorf("proxy: upstream %q: %s is no network", u.Host, p)
			}
		}
	}
	return list, nil
}

// UpstreamOptions describe how upstreams are reached. The zero value reaches public addresses with the system's roots.
type UpstreamOptions struct {
	// Dialer makes the connections; its Upstreams also say with which roots and name each host is verified.
	Dialer Dialer
	// RootCAs verify the upstreams that name none of their own; the system's if nil.
	RootCAs *x509.CertPool
	// HandshakeTimeout bounds a TLS handshake; 15 s if 0.
	HandshakeTimeout time.Duration
	// ResponseHeaderTimeout bounds the wait for a response once the request has been sent; 10 min if 0, because language models
	// answer late.
	ResponseHeaderTimeout time.Duration
	// IdleTimeout closes connections between requests; 90 s if 0.
	IdleTimeout time.Duration
	// IdlePerHost is how many connections to one host are kept between requests; 128 if 0.
	IdlePerHost int
	// Now judges certificates; the system's clock if nil.
	Now func() time.Time
}

// maxResponseHeader bounds the header of a response, in bytes.
const maxResponseHeader = 1 << 20

// Transport sends requests to upstreams. It follows no redirect, uses no proxy, decompresses nothing, and never sends a
// request a second time after a byte of it may have gone out, unless the request is a bodyless GET, HEAD, OPTIONS or TRACE without
// Idempotency-Key. No request is read as a part of another's, or with what another has proven of itself, see alone. Its errors have codes, see classifyError. It is safe for concurrent use.
type Transport struct {
	shared *http.Transport
	// single opens a connection for each request.
	single *http.Transport
	dialer *Dialer
}

// NewTransport makes a transport, or says which upstream is described wrongly.
func NewTransport(o UpstreamOptions) (*Transport, error) {
	var err error
	if o.Dialer.Upstreams, err = checkUpstreams(o.Dialer.Upstreams); err != nil {
		return nil, err
	}
	shared, single := newHTTPTransport(&o, "h2", "http/1.1"), newHTTPTransport(&o, "http/1.1")
	shared.ForceAttemptHTTP2 = true
	single.DisableKeepAlives = true
	single.Protocols = new(http.Protocols)
	single.Protocols.SetHTTP1(true)
	return &Transport{shared: shared, single: single, dialer: &o.Dialer}, nil
}

func newHTTPTransport(o *UpstreamOptions, protocols ...string) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // above all not the environment's, which names this proxy
		DialContext:            o.Dialer.DialContext,
		DialTLSContext:         newTLSDialer(o, protocols).dial,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    orDefault(o.IdlePerHost, 128), // the default of 2 makes most concurrent requests handshake anew
		MaxIdleConns:           1024,
		IdleConnTimeout:        orDefault(o.IdleTimeout, 90*time.Second),
		ResponseHeaderTimeout:  orDefault(o.ResponseHeaderTimeout, 10*time.Minute),
		MaxResponseHeaderBytes: maxResponseHeader,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 30 * time.Second, // finds connections that died in silence
			PingTimeout:     15 * time.Second,
			// What an upstream may send ahead of an agent that does not take it; by default it is 4 MiB.
			MaxReceiveBufferPerStream: 512 << 10,
		},
	}
}

// RoundTrip sends a request made by forwardRequest: its ContentLength is 0 for no body and -1 for one of unknown length.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ContentLength == 0 && r.Body != nil && r.Body != http.NoBody {
		// net/http takes 0 beside a body for "unknown" and would send it chunked, which some servers refuse.
		out := *r
		out.Body = http.NoBody
		_ = r.Body.Close()
		r = &out
	}
	via := t.shared
	if alone(r) {
		via = t.single
	}
	resp, err := via.RoundTrip(r)
	if err != nil {
		return nil, classifyError(err)
	}
	return resp, nil
}

// alone reports whether a request needs a connection of its own, over HTTP/1.1, that nothing came over before and nothing comes over after it.
func alone(r *http.Request) bool { return mayBeResent(r) || mayBeLeftUnread(r) || provesConnection(r) }

// mayBeResent reports whether net/http would send again, on its own, a request that it must not. It re-sends a request without body that was
// lost on a kept connection if its Idempotency-Key says that this is harmless; to us the key says the opposite. On a connection of its own
// nothing is ever re-sent.
func mayBeResent(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody {
		return false // there is no GetBody
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
	}
	return true
}

// mayBeLeftUnread reports whether a request has a body that its method gives no meaning (RFC 9110 section 9.3). Servers that leave it unread
// take it for the next request on the connection: one that no rule has seen, and that the credentials of the call after it would follow.
func mayBeLeftUnread(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return r.Body != nil && r.Body != http.NoBody
	}
	return false
}

// provesConnection reports whether a request's credentials are of a scheme by which servers take the connection for authenticated, and with it
// whatever else comes over it (RFC 4559 section 6).
func provesConnection(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Authorization"], func(value string) bool {
		scheme, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		return slices.ContainsFunc([]string{"NTLM", "Negotiate", "Kerberos"}, func(s string) bool { return strings.EqualFold(s, scheme) })
	})
}

// CheckDestination refuses an address to which a client connected for the target if the target's name, as it resolves here, does
// not have it (destination_mismatch), or does not resolve (upstream_unresolvable). For PipelineOptions.Destination.
func (t *Transport) CheckDestination(ctx context.Context, target Target, dialled netip.Addr) error {
	return t.dialer.checkDestination(ctx, target, dialled)
}

// CloseIdleConnections closes the connections that carry no request.
func (t *Transport) CloseIdleConnections() {
	t.shared.CloseIdleConnections()
	t.single.CloseIdleConnections()
}

// tlsDialer connects and verifies as an upstream's description says.
type tlsDialer struct {
	dialer  *Dialer
	timeout time.Duration
	// configs of the upstreams, by index, and last that of every other host. Sessions are resumed within one configuration, so
	// never across different roots.
	configs []*tls.Config
}

func newTLSDialer(o *UpstreamOptions, protocols []string) *tlsDialer {
	config := func(roots *x509.CertPool) *tls.Config {
		return &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			NextProtos:         protocols,
			ClientSessionCache: tls.NewLRUClientSessionCache(64),
			Time:               o.Now,
		}
	}
	d := &tlsDialer{dialer: &o.Dialer, timeout: orDefault(o.HandshakeTimeout, 15*time.Second)}
	for _, u := range o.Dialer.Upstreams {
		roots := u.RootCAs
		if roots == nil {
			roots = o.RootCAs
		}
		d.configs = append(d.configs, config(roots))
	}
	d.configs = append(d.configs, config(o.RootCAs))
	return d
}

// dial returns a connection whose certificate has been verified. A failure here means that nothing of a request has been sent.
func (d *tlsDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := parseAuthority(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	upstream, i := findUpstream(d.dialer.Upstreams, host, port)
	if i < 0 {
		i = len(d.configs) - 1
	}
	config := d.configs[i].Clone()
	config.ServerName = orDefault(upstream.ServerName, host)
	handshake, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(handshake); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, handshakeFailure(host, err)
	}
	return secure, nil
}

func handshakeFailure(host string, err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return upstreamError{evidence.Refuse("upstream_certificate_untrusted", "the certificate of %s could not be verified", host), err}
	case errors.Is(err, context.DeadlineExceeded):
		return upstreamError{evidence.Refuse("upstream_tls_failed", "%s did not complete the TLS handshake in time", host), err}
	}
	return upstreamError{evidence.Refuse("upstream_tls_failed", "the TLS handshake with %s failed", host), err}
}

// upstreamError is a refusal with its cause, which names addresses: for errors.Is, and for a log if need be, but not for the
// sentence that the agent reads.
type upstreamError struct {
	*evidence.Refusal
	cause error
}

func (e upstreamError) Unwrap() []error { return []error{e.Refusal, e.cause} }

// classifyError gives an error of a transport or of a response's body its code; one that has a code keeps it. After
// upstream_timeout, upstream_lost and client_gone a request may have arrived; after all others nothing of it was sent.
func classifyError(err error) error {
	var refusal *evidence.Refusal
	var timeout net.Error
	switch {
	case err == nil || errors.As(err, &refusal):
		return err
	case errors.Is(err, context.Canceled):
		return upstreamError{evidence.Refuse("client_gone", "the client went away before the upstream had answered"), err}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return upstreamError{evidence.Refuse("upstream_timeout", "the upstream did not answer in time"), err}
	}
	return upstreamError{evidence.Refuse("upstream_lost", "the connection to the upstream broke, or what came was not HTTP"), err}
}
