package demo

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/sidecar"
	"github.com/actionproof/mediator/ledger/sqlite"
)

// SeenPost is what a demo API keeps of a post: enough to show what arrived, and for a thief to send it again.
type SeenPost struct {
	Body          json.RawMessage `json:"body"`
	Authorization string          `json:"authorization"`
	Header        http.Header     `json:"header"`
}

// api is a posting API over HTTPS. The aware API takes part: it issues challenges, verifies envelopes and uses the
// gate's middleware. The plain API knows only a bearer token.
type api struct {
	mu    sync.Mutex // guards posts
	posts []SeenPost
}

// ServeAPI runs one of the demo's APIs until ctx ends.
func ServeAPI(ctx context.Context, dir, listen string, aware bool) error {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "api.pem"), filepath.Join(dir, "api.key"))
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", listen, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	token, err := files.ReadSecret(filepath.Join(dir, "secrets", "api-token"), 1)
	if err != nil {
		return err
	}
	a := &api{}
	post := a.authenticated("Bearer "+token, http.HandlerFunc(a.post))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /posts", a.list)
	if aware {
		record, err := sqlite.Open(ctx, filepath.Join(dir, "state", "api.db"), sqlite.Options{Now: time.Now})
		if err != nil {
			return err
		}
		defer record.Close()
		server, err := newAPIGate(dir, record)
		if err != nil {
			return err
		}
		mux.Handle("POST /challenge", server.Challenge())
		mux.Handle("POST /verify", server.Verify())
		post = server.Middleware(post, gate.Protect{Bind: func(*http.Request) (string, string) { return "agent:worker-1", "create_post" }})
	}
	mux.Handle("POST /posts", post)
	mux.Handle("POST /solved", post)
	mux.Handle("POST /tiers", post)
	mux.Handle("POST /verified", post)
	mux.Handle("POST /mcp", a.authenticated("Bearer "+token, http.HandlerFunc(serveTools)))
	mux.Handle("POST /v1/messages", a.authenticated("Bearer "+token, http.HandlerFunc(serveModel)))
	return daemon.Serve(ctx, l, mux, daemon.Limits{}, 5*time.Second, zap.NewNop())
}

// newAPIGate makes everything that an API owner has to add: the pinned roots, the manifest, a secret and a durable
// ledger.
func newAPIGate(dir string, record *sqlite.Ledger) (*gate.Server, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	_, strict, err := config.ReadAuditedManifest(in(devstack.ManifestFile))
	if err != nil {
		return nil, err
	}
	v, _, err := config.OfflineVerifier(config.Trust{Registry: in(devstack.RegistryFile), Auditor: in(devstack.AuditorFile), Bundle: in(devstack.BundleFile)}, strict, time.Now)
	if err != nil {
		return nil, err
	}
	secret, err := sidecar.GateSecret("")
	if err != nil {
		return nil, err
	}
	g, err := sidecar.NewGate(config.Gate{Issuer: "aware-api"}, secret, v, strict)
	if err != nil {
		return nil, err
	}
	return gate.NewServer(g, record.Consume)
}

// authenticated checks the bearer token, as every API does.
func (a *api) authenticated(want string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want {
			http.Error(w, "no valid token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (a *api) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !json.Valid(body) {
		http.Error(w, "the body is not JSON", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts = append(a.posts, SeenPost{Body: body, Authorization: r.Header.Get("Authorization"), Header: r.Header})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"id\":%d}\n", len(a.posts))
}

func (a *api) list(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.posts)
}

// The names of the demo's APIs. They do not resolve; the sidecar's configuration has their addresses.
const (
	AwareHost = "aware.demo.test"
	PlainHost = "plain.demo.test"
)

// WriteCertificates makes a CA for the demo and a certificate for its APIs: api-ca.pem, api.pem, api.key.
func WriteCertificates(dir string, hosts ...string) error {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "demo API CA"}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "demo API"}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour),
		DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(name, kind string, der []byte, mode os.FileMode) error {
		return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
	}
	return errors.Join(write("api-ca.pem", "CERTIFICATE", caDER, 0o644), write("api.pem", "CERTIFICATE", leafDER, 0o644), write("api.key", "PRIVATE KEY", keyDER, 0o600))
}
