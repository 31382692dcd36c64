package upstream

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/icholy/digest"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Proxy is a proxy above the mediator: the upstream proxy. It carries connections by CONNECT (RFC 9110 section 9.3.6),
// also those to plain-http upstreams: a proxy that gets a plain request chooses the address and can change the call.
// Its errors have codes that begin with upstream_proxy; nothing was sent then.
type Proxy struct {
	Host string // normalised
	Port uint16
	// TLS, if set, secures the connections to the proxy.
	TLS *tls.Config
	// Login returns user:password, and is called for each connection; nil for a proxy that asks for none.
	Login func() (string, error)
	// Digest answers a challenge by RFC 7616, and never sends the password. Otherwise Login goes out by RFC 7617
	// (Basic).
	Digest bool
	// Except are reached directly.
	Except Exceptions
	// Resolves has the proxy resolve the names of hosts. Only names of public DNS pass, unless the host has networks.
	Resolves bool
	// Timeout bounds a TLS handshake with the proxy, and the wait for an answer, in which it connects to the upstream;
	// 30 s if 0.
	Timeout time.Duration
	// Tried, if set, is called with the code of each connection's failure; empty for a success.
	Tried func(code string)
}

// stream is a connection whose directions can end separately: TCP or TLS.
type stream interface {
	net.Conn
	CloseWrite() error
}

func (p *Proxy) timeout() time.Duration { return cmp.Or(p.Timeout, 30*time.Second) }

// Carries reports whether a call takes the proxy, judged by the host's name.
func (p *Proxy) Carries(v Via, host string, port uint16) bool {
	return p != nil && (v == ViaProxy || v == "" && !p.Except.has(host, port))
}

// notConnected is the status with which the proxy said that it has no connection to the upstream.
type notConnected int

func (s notConnected) Error() string { return fmt.Sprintf("the upstream proxy answered %d", int(s)) }

// tunnel returns a connection to an upstream, a host:port. Its error is notConnected if another address may do.
func (d *Dialer) tunnel(ctx context.Context, to string) (c stream, err error) {
	p := d.Proxy
	if p.Tried != nil {
		defer func() { p.Tried(codeOf(err)) }()
	}
	login := ""
	if p.Login != nil {
		if login, err = p.Login(); err != nil {
			return nil, refusal.New("upstream_proxy_login", "the credentials for the upstream proxy cannot be read").
				ForOperator("%s", err)
		}
	}
	authorization := ""
	if login != "" && !p.Digest {
		authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(login))
	}
	c, answer, err := d.ask(ctx, to, authorization)
	if err == nil && answer.StatusCode == http.StatusProxyAuthRequired && login != "" && p.Digest {
		_ = c.Close()
		if authorization, err = authorize(answer.Header["Proxy-Authenticate"], login, to); err == nil {
			c, answer, err = d.ask(ctx, to, authorization)
		}
	}
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return c, nil
	}
	_ = c.Close()
	switch s := answer.StatusCode; {
	case s == http.StatusProxyAuthRequired:
		return nil, refusal.New("upstream_proxy_login",
			"the upstream proxy does not accept the mediator's credentials").
			ForOperator("it asks for %s", strings.Join(schemes(answer.Header["Proxy-Authenticate"]), " or "))
	case s >= 500:
		return nil, notConnected(s)
	default:
		return nil, refusal.New("upstream_proxy_refused", "the upstream proxy answered %d", s).
			ForOperator("to the CONNECT to %s", to)
	}
}

func codeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(notConnected)):
		return "upstream_unreachable"
	}
	return cmp.Or(refusal.CodeOf(err), "client_gone")
}

// authorize answers the first challenge of the Digest scheme that it can.
func authorize(challenges []string, login, to string) (string, error) {
	user, password, _ := strings.Cut(login, ":")
	for _, text := range challenges {
		challenge, err := digest.ParseChallenge(text)
		if err != nil || !digest.CanDigest(challenge) {
			continue
		}
		answer, err := digest.Digest(challenge, digest.Options{
			Method: http.MethodConnect, URI: to, Count: 1, Username: user, Password: password,
		})
		if err == nil {
			return answer.String(), nil
		}
	}
	return "", refusal.New("upstream_proxy_login",
		"the upstream proxy offers no Digest authentication that the mediator supports").
		ForOperator("it asks for %s", strings.Join(schemes(challenges), " or "))
}

// schemes names the schemes of challenges. Anything else that the proxy wrote there is unknown.
func schemes(challenges []string) (names []string) {
	for _, text := range challenges {
		scheme, _, _ := strings.Cut(text, " ")
		if !slices.Contains([]string{"Basic", "Bearer", "Digest", "Kerberos", "Negotiate", "NTLM"}, scheme) {
			scheme = "an unknown scheme"
		}
		names = append(names, scheme)
	}
	if names == nil {
		names = []string{"nothing"}
	}
	return names
}

// ask sends one CONNECT on a new connection, and returns the answer without its body.
func (d *Dialer) ask(ctx context.Context, to, authorization string) (stream, *http.Response, error) {
	c, err := d.dialProxy(ctx)
	if err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Now().Add(d.Proxy.timeout()))
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	answer, err := connect(c, to, authorization)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Time{})
	return c, answer, nil
}

func connect(c net.Conn, to, authorization string) (*http.Response, error) {
	head := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if authorization != "" {
		head += "Proxy-Authorization: " + authorization + "\r\n"
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return nil, silent(err)
	}
	bounded := &io.LimitedReader{R: c, N: maxResponseHeader}
	read := bufio.NewReader(bounded)
	answer, err := http.ReadResponse(read, &http.Request{Method: http.MethodConnect})
	var broken net.Error
	switch {
	case bounded.N == 0:
		return nil, malformed("its answer has a header of more than %d KiB", maxResponseHeader>>10)
	case errors.As(err, &broken), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, silent(err)
	case err != nil:
		return nil, malformed("its answer is not HTTP")
	case answer.StatusCode < 200:
		return nil, malformed("it answered with status %d, which is not a final status", answer.StatusCode)
	case answer.StatusCode < 300 && read.Buffered() > 0:
		return nil, malformed("it sent data before any request")
	}
	return answer, nil
}

func malformed(format string, args ...any) error {
	return refusal.New("upstream_proxy_malformed", "the upstream proxy's answer is not that of an HTTP proxy: "+format,
		args...)
}

func silent(err error) error {
	var timeout net.Error
	why := "it closed the connection without an answer"
	if errors.As(err, &timeout) && timeout.Timeout() {
		why = "it took too long"
	}
	return upstreamError{refusal.New("upstream_proxy_unreachable", "the upstream proxy does not answer: %s", why), err}
}

// dialProxy connects to the proxy, whose address may be private.
func (d *Dialer) dialProxy(ctx context.Context) (stream, error) {
	p := d.Proxy
	all, err := d.proxyAddresses(ctx)
	if err != nil {
		return nil, err
	}
	var last error
	for _, at := range all[:min(len(all), maxTries)] {
		if d.isOwn(at) {
			return nil, refusal.New("upstream_proxy_unreachable", "the upstream proxy's address is the mediator's own")
		}
		dialer := net.Dialer{Timeout: connectTimeout}
		c, err := dialer.DialContext(ctx, "tcp", at.String())
		switch {
		case err == nil && p.TLS == nil:
			return c.(*net.TCPConn), nil
		case err == nil:
			return p.secure(ctx, c)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		last = err
	}
	return nil, refusal.New("upstream_proxy_unreachable", "no connection to the upstream proxy").
		ForOperator("%s", whyUnreachable(last))
}

// proxyAddresses resolves the proxy's name, always here.
func (d *Dialer) proxyAddresses(ctx context.Context) ([]netip.AddrPort, error) {
	addrs, err := d.resolve(ctx, d.Proxy.Host)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), error(refusal.New("upstream_proxy_unreachable",
			"the name of the upstream proxy could not be resolved")))
	}
	all := make([]netip.AddrPort, len(addrs))
	for i, addr := range addrs {
		all[i] = netip.AddrPortFrom(addr.Unmap(), d.Proxy.Port)
	}
	return all, nil
}

func (p *Proxy) secure(ctx context.Context, c net.Conn) (stream, error) {
	handshake, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	secure := tls.Client(c, p.TLS)
	err := secure.HandshakeContext(handshake)
	if err == nil {
		return secure, nil
	}
	_ = c.Close()
	var untrusted *tls.CertificateVerificationError
	said, _ := wire.HandshakeFailure(err, "the upstream proxy")
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &untrusted):
		return nil, refusal.New("upstream_proxy_untrusted",
			"the certificate of the upstream proxy could not be verified").
			ForOperator("%.300q", untrusted.Err)
	case handshake.Err() != nil, wire.HungUp(err):
		return nil, silent(cmp.Or(handshake.Err(), err))
	}
	return nil, malformed("its TLS handshake failed: %s", said)
}

// CheckProxy reports why the upstream proxy cannot be reached now; nil without one. It sends no CONNECT.
func (t *Transport) CheckProxy(ctx context.Context) error {
	if t.dialer.Proxy == nil {
		return nil
	}
	c, err := t.dialer.dialProxy(ctx)
	if err != nil {
		return err
	}
	return c.Close()
}
