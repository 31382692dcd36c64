// Package vault is custody in HashiCorp Vault (or a server with its API): the Transit engine signs, and its private keys never leave it.
// The package also reads API credentials from Vault's KV engine and from engines that make secrets for a time.
//
// Each [Key] and each [Secret] has a Vault token of its own, got with an [Auth] of its own, so that a role can be given exactly one key.
// A key is read on a period, and more often while it signs: its versions, and whether Vault would let it out. A signature is asked for by version, together with others
// that wait for the same version, and is verified with the version's public key before it is used.
package vault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/vault/api"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
)

// Options say where Vault is. Address, Log and Now are required.
type Options struct {
	Address string // https://host:port; plain http only to a loopback address
	CAFile  string // PEM certificates that sign Vault's; the system's if empty
	Mount   string // of the Transit engine; transit if empty
	// Timeout bounds one request; 2 s if 0. Nothing waits longer for Vault: a post is refused instead.
	Timeout time.Duration
	// Refresh is how often a key that is used is read; 500 ms if 0. One that is not used is read twentieth Refresh.
	Refresh time.Duration
	// Stale is how long ago a key may have been read when it signs; 5 s if 0.
	Stale time.Duration
	Log   *zap.Logger
	Now   func() time.Time
}

// Server is a Vault server, over connections that all keys and secrets share. It is safe for concurrent use.
type Server struct {
	o         Options
	transport *http.Transport
	base      *api.Client // what every client is a copy of; it has no token

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wait   sync.WaitGroup // for everything that runs until Close

	certificate atomic.Pointer[time.Time] // its end, as the last new connection saw it
	mu          sync.Mutex                // guards sessions
	sessions    []*session
}

// reconnect is how often connections that are idle at the moment are closed, so that a certificate that Vault has renewed is seen.
const reconnect = time.Hour

// NewServer prepares for a server; it asks it for nothing.
func NewServer(o Options) (*Server, error) {
	if o.Log == nil || o.Now == nil {
		return nil, errors.New("vault: a server needs a log and a clock")
	}
	if err := checkAddress(o.Address); err != nil {
		return nil, err
	}
	roots, err := readRoots(o.CAFile)
	if err != nil {
		return nil, err
	}
	setDefault(&o.Mount, "transit")
	setDefault(&o.Timeout, 2*time.Second)
	setDefault(&o.Refresh, 500*time.Millisecond)
	setDefault(&o.Stale, 5*time.Second)
	s := &Server{o: o, transport: &http.Transport{
		// No Proxy: what this process asks of Vault goes through no proxy that its environment names.
		// A connection that has died without a word is noticed and replaced.
		DialContext:         (&net.Dialer{Timeout: o.Timeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: o.Timeout, Interval: o.Timeout / 2, Count: 2}}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: o.Timeout, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 16,
		// HTTP/1.1: a key has one request under way, and with HTTP/2 that costs both ends a quarter more CPU.
	}}
	s.transport.TLSClientConfig.VerifyConnection = s.seeCertificate
	s.ctx, s.cancel = context.WithCancel(context.Background())
	// What the environment says of Vault (VAULT_*) counts for nothing, but the library reads it, with the files that it names: here alone, since
	// a process that has confined itself cannot open them.
	if s.base, err = api.NewClient(&api.Config{
		Address: o.Address, HttpClient: &http.Client{Transport: bounded{s.transport}}, Timeout: o.Timeout,
		MaxRetries: 0, // a post does not wait for retries of a second and more
	}); err != nil {
		return nil, fmt.Errorf("vault: %w", environment(err))
	}
	s.base.ClearToken()
	s.base.ClearNamespace()
	s.background(func(ctx context.Context) {
		for range every.Tick(ctx, reconnect) {
			s.transport.CloseIdleConnections()
		}
	})
	return s, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// checkAddress refuses an address to which a token could travel in the clear.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return fmt.Errorf("vault: %q is not an address such as https://vault.example:8200", address)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("vault: %s is not reached over https", address)
	}
	return nil
}

func readRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("vault: the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("vault: %s holds no PEM certificate", path)
	}
	return pool, nil
}

// Close ends what runs in the background, and gives back the tokens that were got by logging in.
func (s *Server) Close() error {
	s.cancel()
	s.wait.Wait()
	s.transport.CloseIdleConnections()
	return nil
}

// Client makes a client with a token of the caller's own, for what keys and secrets do not do. Its connections end with Close.
func (s *Server) Client(token string) *api.Client {
	c := s.client()
	c.SetToken(token)
	return c
}

// client makes a client without a token.
func (s *Server) client() *api.Client { return s.base.WithRequestCallbacks() } // a copy

// maxAnswer bounds an answer of Vault, in bytes: its library reads each as a whole.
const maxAnswer = 4 << 20

// bounded fails the reading of an answer that is longer than maxAnswer.
type bounded struct{ to http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.to.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// decode reads the data of an answer. An answer can be empty, and then there is no secret.
func decode(secret *api.Secret, to any) error {
	if secret == nil {
		return errors.New("the answer is empty")
	}
	raw, err := json.Marshal(secret.Data)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}

// background runs f until Close.
func (s *Server) background(f func(ctx context.Context)) {
	s.wait.Go(func() { f(s.ctx) })
}
