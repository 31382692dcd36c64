package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/internal/wire"
)

// Options describe how upstreams are reached. The zero value reaches public addresses with the system's roots.
type Options struct {
	// Dialer makes the connections; its Hosts also set each host's roots.
	Dialer Dialer
	// RootCAs verify hosts without roots of their own; the system's if nil.
	RootCAs *x509.CertPool
	// HandshakeTimeout bounds a TLS handshake; 15 s if 0.
	HandshakeTimeout time.Duration
	// ResponseHeaderTimeout bounds the wait for a response after the request; 10 min if 0, because language models are
	// slow.
	ResponseHeaderTimeout time.Duration
	// WriteTimeout bounds a write over HTTP/2 that the upstream does not take; 5 min if 0.
	WriteTimeout time.Duration
	// Now judges certificates; the system's clock if nil.
	Now func() time.Time
	// Connections bounds those open, idle ones included. No party has more than it leaves free ([share.Pool]). 2048 if
	// 0.
	Connections int
}

// maxResponseHeader bounds a response's header, in bytes. Each line counts fieldOverhead more, as in HTTP/2 (RFC 9113
// section 6.5.2).
const maxResponseHeader, fieldOverhead = 64 << 10, 32

// Transport sends requests to upstreams. It follows no redirects and decompresses nothing. It repeats a
// request of which a byte may have gone out only if it is a bodyless GET, HEAD, OPTIONS or TRACE without
// Idempotency-Key. No request shares a connection where it could be read as part of another's or use another's
// authentication, see alone; nor do those of two parties, see [WithParty], or of two client certificates, see
// [WithClient]. Its errors have codes, see Classify. It is safe for concurrent use.
type Transport struct {
	// single opens a connection for each request.
	single    *http.Transport
	newShared func() *http.Transport
	dialer    *Dialer
	most      int64      // of open
	open      share.Pool // connections, by party

	mu     sync.Mutex // guards shared
	shared map[pool]pooled
}

// pool is a set of connections that requests of one party share if they must go the same way and authenticate alike.
type pool struct {
	party  string
	via    Via
	client string // name of the [Client]
}

type pooled struct {
	*http.Transport
	certificate *tls.Certificate // of the client
}

// NewTransport makes a transport without connections.
func NewTransport(o Options) *Transport {
	t := &Transport{dialer: &o.Dialer, most: int64(cmp.Or(o.Connections, 2048)), shared: make(map[pool]pooled)}
	both := newTLSDialer(&o, t.connect, "h2", "http/1.1")
	t.newShared = func() *http.Transport { return withHTTP2(t.newHTTP(&o, both)) }
	t.single = t.newHTTP(&o, newTLSDialer(&o, t.connect, "http/1.1"))
	t.single.DisableKeepAlives = true
	t.single.Protocols = new(http.Protocols)
	t.single.Protocols.SetHTTP1(true)
	return t
}

func (t *Transport) newHTTP(o *Options, secure *tlsDialer) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // not the environment's, which names this proxy
		DialContext:            forCall(t.connect),
		DialTLSContext:         forCall(secure.dial),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    128, // the default of 2 makes most concurrent requests handshake anew
		MaxIdleConns:           256,
		IdleConnTimeout:        90 * time.Second,
		ResponseHeaderTimeout:  cmp.Or(o.ResponseHeaderTimeout, 10*time.Minute),
		MaxResponseHeaderBytes: maxResponseHeader,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 30 * time.Second, // finds silently dead connections
			PingTimeout:     15 * time.Second,
			// An upstream that goes on to send frames would otherwise keep a connection for ever, even without calls.
			WriteByteTimeout: cmp.Or(o.WriteTimeout, 5*time.Minute),
			// What an upstream may send ahead of a slow agent; the default is 4 MiB.
			MaxReceiveBufferPerStream: 512 << 10,
		},
	}
}

// withHTTP2 takes HTTP/2 from golang.org/x/net: in Go 1.26, net/http's own hangs for ever, with all calls of its party,
// if an upstream opens the window of a stream too far.
func withHTTP2(via *http.Transport) *http.Transport {
	//lint:ignore SA1019 deprecated for Go 1.27, which has the same client
	over, err := http2.ConfigureTransports(via)
	if err != nil {
		panic(err) // only for a transport that has HTTP/2
	}
	//lint:ignore SA1019 as above
	over.MaxHeaderListSize = maxResponseHeader
	return via
}

// partyKey is the key of a party in the context of its requests.
type partyKey struct{}

type party struct {
	name string
	life context.Context //nolint:containedctx // ends with the party
}

// WithParty returns a context for the requests of one party, such as an agent's session. Parties share no connections:
// one could otherwise fill the window of an HTTP/2 connection, or have the upstream close it, and break the requests of
// others. life ends with the party.
func WithParty(ctx context.Context, name string, life context.Context) context.Context {
	return context.WithValue(ctx, partyKey{}, party{name, life})
}

func (t *Transport) of(ctx context.Context) *http.Transport {
	p, named := ctx.Value(partyKey{}).(party)
	client := clientOf(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	of := pool{p.name, viaOf(ctx), client.Name}
	old, known := t.shared[of]
	if known && old.certificate == client.Certificate {
		return old.Transport
	}
	via := t.newShared()
	t.shared[of] = pooled{via, client.Certificate}
	if known { // the certificate was renewed
		go old.CloseIdleConnections() // those in use end soon after their requests: see IdleConnTimeout
	} else if named {
		context.AfterFunc(p.life, func() {
			t.mu.Lock()
			last := t.shared[of] // its certificate may have been renewed since
			delete(t.shared, of)
			t.mu.Unlock() // closing may take time
			last.CloseIdleConnections()
		})
	}
	return via
}

// connect makes a connection, and counts it for its party until it is closed. Idle connections make room for new ones.
// net/http bounds only those over HTTP/1, so an upstream that takes one request of each connection could otherwise use
// up the process's descriptors.
func (t *Transport) connect(ctx context.Context, _, address string) (net.Conn, error) {
	p, _ := ctx.Value(partyKey{}).(party)
	for _, makeRoom := range []func(){t.of(ctx).CloseIdleConnections, t.CloseIdleConnections, nil} {
		if t.open.Take(p.name, 1, t.most) {
			break
		} else if makeRoom == nil {
			return nil, refusal.New("overloaded",
				"the session has used up its share of the %d connections to upstreams that may be open at "+
					"once; nothing was sent", t.most)
		}
		makeRoom()
	}
	free := sync.OnceFunc(func() { t.open.Give(p.name, 1) })
	conn, via, err := t.dialer.dial(ctx, address)
	if err != nil {
		free()
		return nil, err
	}
	return counted{conn, via, free, clientOf(ctx).Certificate != nil}, nil
}

type counted struct {
	stream
	via     Via
	free    func()
	patient bool // for a client's certificate
}

// Write succeeds on a patient connection that the host has closed. A host that refuses the certificate may do so while
// the request is written, but has sent an alert, which says why: so the reader reports that, or the connection's end.
func (c counted) Write(b []byte) (n int, err error) {
	n, err = c.stream.Write(b)
	if c.patient && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return len(b), nil
	}
	return n, err
}

func (c counted) Close() error {
	defer c.free()
	return c.stream.Close()
}

// callKey is the key of a call in the context of its dials. net/http lets a dial outlive its request.
type callKey struct{}

type dialling struct {
	call  context.Context //nolint:containedctx // the call's own
	dials atomic.Int32
}

// maxDials bounds the connections that one call makes. net/http makes another without end if an upstream takes no
// request on a new one, by SETTINGS or GOAWAY of HTTP/2.
const maxDials = 20

// forCall ends a dial with its call: an agent could otherwise have any number of dials going on, by giving up calls.
func forCall(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (
	net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if d, ok := ctx.Value(callKey{}).(*dialling); ok {
			if d.dials.Add(1) > maxDials {
				return nil, refusal.New("upstream_lost", "the upstream accepted no request on %d new connections", maxDials)
			}
			defer context.AfterFunc(d.call, cancel)()
		}
		return dial(ctx, network, address)
	}
}

// RoundTrip sends a request made by forward.Request: ContentLength is 0 for no body and -1 for unknown.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ContentLength == 0 && hasBody(r) {
		// net/http takes 0 beside a body for unknown and would send it chunked, which some servers refuse.
		out := *r
		out.Body = http.NoBody
		_ = r.Body.Close()
		r = &out
	}
	via := t.single
	if !alone(r) {
		via = t.of(r.Context())
	}
	ctx, explain := clientOf(r.Context()).watch(r.Context(), r.URL.Hostname())
	r = r.WithContext(context.WithValue(ctx, callKey{}, &dialling{call: r.Context()}))
	resp, err := via.RoundTrip(r)
	if err != nil {
		return nil, Classify(explain(err))
	}
	return CheckAnswer(r, resp)
}

// CheckAnswer refuses, and closes, an answer that no client could get, and removes a body that none could.
func CheckAnswer(r *http.Request, resp *http.Response) (*http.Response, error) {
	switched := resp.StatusCode == http.StatusSwitchingProtocols && wire.IsWebSocketAnswer(r.Header, resp.Header)
	if !switched && resp.StatusCode < 200 || resp.StatusCode > 999 {
		// After a 101 that was not asked for, or answers another handshake, neither HTTP nor a WebSocket follows. Over
		// HTTP/2 net/http takes any number for a status, and writes none with more than three digits.
		_ = resp.Body.Close()
		return nil, refusal.New("upstream_lost",
			"the upstream answered with status %d, which is not a final status", resp.StatusCode)
	}
	if listSize(resp) > maxResponseHeader {
		_ = resp.Body.Close()
		return nil, refusal.New("upstream_lost",
			"the upstream's header exceeds %d bytes (counting %d bytes more for each line)", maxResponseHeader,
			fieldOverhead)
	}
	if resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		// Over HTTP/2 there may be a body, which no client gets: a record must not tell of a result in it.
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, nil
}

// listSize counts each name in Connection and Trailer as a line: relaying an answer compares names with each other.
func listSize(resp *http.Response) int {
	size := len(wire.ConnectionOptions(resp.Header)) * fieldOverhead
	for name, values := range resp.Header {
		for _, v := range values {
			size += len(name) + len(v) + fieldOverhead
		}
	}
	for name := range resp.Trailer {
		size += len(name) + fieldOverhead
	}
	return size
}

// alone reports whether a request needs an HTTP/1.1 connection of its own, used neither before nor after.
func alone(r *http.Request) bool {
	return mayBeResent(r) || mayBeLeftUnread(r) || provesConnection(r) || len(r.Header["Upgrade"]) > 0
}

// mayBeResent reports whether net/http would by itself repeat a request that must not be repeated. It repeats a
// bodyless request, lost on a kept connection, whose Idempotency-Key makes that harmless; here the key means the
// opposite. It never repeats on a fresh connection.
func mayBeResent(r *http.Request) bool {
	if hasBody(r) {
		return false // no GetBody
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
	}
	return true
}

// mayBeLeftUnread reports whether a request has a body to which its method gives no meaning (RFC 9110 section 9.3). A
// server that leaves it unread takes it for the connection's next request: one that no rule has seen, and that the next
// call's credentials would follow.
func mayBeLeftUnread(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return hasBody(r)
	}
	return false
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// provesConnection reports whether the credentials' scheme makes servers authenticate the connection, and with it all
// later requests (RFC 4559 section 6).
func provesConnection(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Authorization"], func(value string) bool {
		scheme, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		return slices.ContainsFunc([]string{"NTLM", "Negotiate", "Kerberos"}, func(s string) bool {
			return strings.EqualFold(s, scheme)
		})
	})
}

// CheckDestination refuses an address that a client dialled for target if the target's name, resolved here, does not
// have it (target_mismatch) or does not resolve (upstream_unresolvable). For PipelineOptions.Destination.
func (t *Transport) CheckDestination(ctx context.Context, target Target, dialled netip.Addr) error {
	upstream, _ := findHost(t.dialer.Hosts, target.Host, target.Port)
	if upstream.Address.Addr() == dialled {
		return nil
	}
	addrs, err := t.dialer.resolve(ctx, target.Host)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == dialled }) {
		return refusal.New("target_mismatch",
			"the connection was made to %s, which is not an address of %s", dialled, target.Host)
	}
	return nil
}

// CloseIdleConnections closes the idle connections.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.shared))
	t.mu.Unlock() // closing may take time
	for _, via := range append(all, pooled{Transport: t.single}) {
		via.CloseIdleConnections()
	}
}

// upstreamError is a refusal with its cause. The cause names addresses, so it is for errors.Is and logs, not for the
// agent.
type upstreamError struct {
	*refusal.Refusal
	cause error
}

func (e upstreamError) Unwrap() []error { return []error{e.Refusal, e.cause} }

// Classify gives an error of a transport or body its code, unless it has one. After upstream_timeout, upstream_lost,
// upstream_client_refused and client_gone the request may have arrived; after all others nothing was sent.
func Classify(err error) error {
	var timeout net.Error
	switch {
	case err == nil || refusal.CodeOf(err) != "":
		return err
	case errors.Is(err, context.Canceled):
		return upstreamError{refusal.New("client_gone", "the client went away before the upstream had answered"), err}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return upstreamError{refusal.New("upstream_timeout", "the upstream did not answer in time"), err}
	}
	return upstreamError{refusal.New("upstream_lost",
		"the connection to the upstream broke, or its answer was not HTTP or had a header of more than %d KiB",
		maxResponseHeader>>10), err}
}
