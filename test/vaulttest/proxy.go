package vaulttest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is what goes wrong between a client and Vault. Its zero value is nothing: connections pass through as they are,
// with Vault's own TLS. For all else the proxy itself is the TLS server, with a certificate of the same CA.
type Fault struct {
	Refuse    bool          // nobody listens
	Expired   bool          // the certificate has expired
	Delay     time.Duration // before each answer
	Status    int           // answered in place of Vault
	Reset     bool          // the connection is reset when an answer is due
	HalfClose bool          // the connection is closed in one direction when an answer is due
	Clock     time.Duration // added to each time that Vault tells
}

// Proxy stands between a client and a server.
type Proxy struct {
	Address string // https://127.0.0.1:PORT; the server's CA is good for it

	server  *Server
	http    *http.Server
	tls     *queue // connections for http
	fault   atomic.Pointer[Fault]
	valid   tls.Certificate
	expired tls.Certificate

	mu    sync.Mutex // guards both
	ln    net.Listener
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

// NewProxy starts a proxy in front of s, without a fault.
func (s *Server) NewProxy(t testing.TB) *Proxy {
	t.Helper()
	p := &Proxy{server: s, conns: make(map[net.Conn]bool),
		tls: &queue{conns: make(chan net.Conn), done: make(chan struct{})}}
	p.fault.Store(&Fault{})
	now := time.Now()
	var err error
	if p.valid, err = s.ca.certificate(now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if p.expired, err = s.ca.certificate(now.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	handler, err := p.handler()
	if err != nil {
		t.Fatal(err)
	}
	p.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				if p.fault.Load().Expired {
					return &p.expired, nil
				}
				return &p.valid, nil
			}},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	if err := p.listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.Address = "https://" + p.ln.Addr().String()
	p.wait.Go(func() { _ = p.http.ServeTLS(p.tls, "", "") })
	t.Cleanup(p.Close)
	return p
}

// Close ends the proxy and every connection.
func (p *Proxy) Close() {
	p.stop()
	_ = p.http.Close()
	p.wait.Wait()
}

// Set changes what goes wrong from now on, and ends the connections that there are.
func (p *Proxy) Set(t testing.TB, f Fault) {
	t.Helper()
	p.fault.Store(&f)
	address := p.Address[len("https://"):]
	p.stop()
	if f.Refuse {
		return
	}
	if err := p.listen(address); err != nil {
		t.Fatal(err)
	}
}

// stop ends the listener and every connection.
func (p *Proxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.ln.Close()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) listen(address string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	p.ln = ln
	p.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.keep(c)
			if *p.fault.Load() == (Fault{}) {
				p.wait.Go(func() { p.pass(c) })
				continue
			}
			select {
			case p.tls.conns <- c:
			case <-p.tls.done:
				_ = c.Close()
			}
		}
	})
	return nil
}

func (p *Proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

// pass carries the bytes of one connection to the server and back.
func (p *Proxy) pass(c net.Conn) {
	defer p.drop(c)
	up, err := net.Dial("tcp", p.server.Address[len("https://"):])
	if err != nil {
		_ = c.(*net.TCPConn).SetLinger(0) // Vault's port is closed, and so is this one
		return
	}
	p.keep(up)
	defer p.drop(up)
	done := make(chan struct{}, 2)
	for from, to := range map[net.Conn]net.Conn{c: up, up: c} {
		go func() {
			_, _ = io.Copy(to, from)
			done <- struct{}{}
		}()
	}
	<-done
}

type connKey struct{}

// handler answers as the fault says.
func (p *Proxy) handler() (http.Handler, error) {
	to, err := url.Parse(p.server.Address)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(p.server.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	vault := httputil.NewSingleHostReverseProxy(to)
	vault.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true}
	vault.ModifyResponse = func(r *http.Response) error { return shift(r, p.fault.Load().Clock) }
	vault.ErrorLog = log.New(io.Discard, "", 0)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := *p.fault.Load()
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return
		}
		conn := r.Context().Value(connKey{}).(*tls.Conn).NetConn().(*net.TCPConn)
		switch {
		case f.Reset:
			_ = conn.SetLinger(0)
			_ = conn.Close()
		case f.HalfClose:
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, r.Body) // until then a server of HTTP/1.1 does not look whether its client has gone
			<-r.Context().Done()
		case f.Status != 0:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(f.Status)
			fmt.Fprint(w, `{"errors":["a fault of the test"]}`)
		default:
			vault.ServeHTTP(w, r)
		}
	}), nil
}

var times = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)"`)

// shift adds clock to every time in an answer.
func shift(r *http.Response, clock time.Duration) error {
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		r.Header.Set("Date", date.Add(clock).Format(http.TimeFormat))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	body = times.ReplaceAllFunc(body, func(told []byte) []byte {
		at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(told))
		if err != nil {
			return told
		}
		return []byte(at.Add(clock).Format(`"` + time.RFC3339Nano + `"`))
	})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// queue is a listener for connections that somebody else has accepted.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Accept waits for the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

// Addr is of no meaning.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }
