// Package vault is custody in HashiCorp Vault or a compatible server. The Transit engine signs, and its private keys
// never leave it. The package also reads API credentials from KV and from engines that make secrets.
//
// Each [Key] has its own [Auth] and token, so that a role has exactly one key. The package reads a key's versions and
// flags periodically, and more often while the key signs. It requests the signatures of a version in batches, and
// verifies them.
package vault

import (
	"cmp"
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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/vault/api"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
)

// Options say where Vault is. Address, Log and Now are required.
type Options struct {
	Address string // https://host:port; http only for a loopback address
	CAFile  string // PEM certificates of Vault's authority; the system's if empty
	Mount   string // of the Transit engine; transit if empty
	// Timeout bounds one request but logins and questions what a token may do; 2 s if 0.
	Timeout time.Duration
	// Refresh is how often a used key is read; 2 s if 0. An unused one is read a fifth as often.
	Refresh time.Duration
	Log     *zap.Logger
	Now     func() time.Time
}

// Server is a Vault server; all keys and secrets share its connections. It is safe for concurrent use.
type Server struct {
	o         Options
	transport *http.Transport
	base      *api.Client // every client is a copy; without a token

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wait   sync.WaitGroup // background work until Close

	certificate atomic.Pointer[time.Time] // of its certificate, at the last new connection
	mu          sync.Mutex                // guards sessions
	sessions    []*session
}

// reconnect is how often idle connections are closed, to see a renewed certificate.
const reconnect = time.Hour

// NewServer asks the server nothing.
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
	o.Mount = cmp.Or(o.Mount, "transit")
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.Refresh = cmp.Or(o.Refresh, 2*time.Second)
	probes := net.KeepAliveConfig{Enable: true, Idle: o.Timeout, Interval: o.Timeout / 2, Count: 2}
	s := &Server{o: o, transport: &http.Transport{
		// No Proxy: requests to Vault ignore the environment's proxy. Dead connections are noticed and replaced.
		DialContext:         (&net.Dialer{Timeout: o.Timeout, KeepAliveConfig: probes}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: o.Timeout, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 16,
		// HTTP/1.1, because with one request at a time for each key HTTP/2 costs both ends a quarter more CPU.
	}}
	s.transport.TLSClientConfig.VerifyConnection = s.seeCertificate
	s.ctx, s.cancel = context.WithCancel(context.Background())
	// The library would read the VAULT_* variables and the files that they name, which the configuration does not
	// mention.
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "VAULT_") {
			_ = os.Unsetenv(name)
		}
	}
	if s.base, err = api.NewClient(&api.Config{
		Address: o.Address, HttpClient: &http.Client{Transport: bounded{s.transport}},
		Timeout:    patientTimeout, // a context bounds each other request
		MaxRetries: 0,              // a post does not wait for retries of a second
	}); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	s.background(func(ctx context.Context) {
		for range every.Tick(ctx, reconnect) {
			s.transport.CloseIdleConnections()
		}
	})
	return s, nil
}

// checkAddress refuses an address to which tokens would travel in the clear.
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
	pem, err := files.Read(path)
	if err != nil {
		return nil, fmt.Errorf("vault: the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("vault: %s holds no PEM certificate", path)
	}
	return pool, nil
}

// Close ends background work and revokes the tokens from logins.
func (s *Server) Close() error {
	s.cancel()
	s.wait.Wait()
	s.transport.CloseIdleConnections()
	return nil
}

// Client makes a client with the caller's own token. Its connections end with Close.
func (s *Server) Client(token string) *api.Client {
	c := s.client()
	c.SetToken(token)
	return c
}

func (s *Server) client() *api.Client { return s.base.WithRequestCallbacks() } // a copy

// maxAnswer bounds an answer, in bytes: the library reads it whole.
const maxAnswer = 4 << 20

type bounded struct{ to http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.to.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

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

func (s *Server) background(f func(ctx context.Context)) {
	s.wait.Go(func() { f(s.ctx) })
}
