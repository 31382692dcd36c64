package demo

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/demo/agent"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger/sqlite"
)

// seenPost is a post that an API saw: enough for a thief to send it again.
type seenPost struct {
	body   []byte
	header http.Header
}

type api struct {
	mu    sync.Mutex // guards posts
	posts []seenPost
}

// handler returns the API's handler. server is the gate of an API that takes part, or nil.
func (a *api) handler(server *gate.Server) http.Handler {
	mux := http.NewServeMux()
	post := authenticated(a.post)
	if server != nil {
		mux.Handle("POST /challenge", server.Challenge())
		mux.Handle("POST /verify", server.Verify())
		post = server.Middleware(post, gate.Protect{
			Bind: func(*http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
		})
	}
	for _, path := range []string{"/posts", "/solved", "/tiers", "/verified"} {
		mux.Handle("POST "+path, post)
	}
	mux.HandleFunc("GET /posts", func(w http.ResponseWriter, _ *http.Request) {
		agent.WriteJSON(w, http.StatusOK, []string{})
	})
	mux.Handle("POST /mcp", authenticated(agent.ServeTools))
	mux.Handle("POST /v1/messages", authenticated(agent.ServeModel))
	return mux
}

func authenticated(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+trial.Token {
			http.Error(w, "no valid token", http.StatusUnauthorized)
			return
		}
		next(w, r)
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
	a.posts = append(a.posts, seenPost{body, r.Header.Clone()})
	agent.WriteJSON(w, http.StatusCreated, map[string]int{"id": len(a.posts)})
}

func (a *api) seen() []seenPost {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.posts)
}

// newAPIGate makes what an API's owner adds: the pinned roots, the manifest, a secret and a durable ledger.
func newAPIGate(ctx context.Context, dir string) (_ *gate.Server, closeLedger func() error, err error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	manifest, err := deployed.ReadManifest(in(devstack.ManifestFile))
	if err != nil {
		return nil, nil, err
	}
	text, err := manifest.Canonical()
	if err != nil {
		return nil, nil, err
	}
	of := gate.Files{
		Registry: in(devstack.RegistryFile), Auditor: in(devstack.AuditorFile), Bundle: in(devstack.BundleFile),
		Manifest: in("state/manifest.json"), Secret: in("secrets/aware-api"), Name: "aware-api",
	}
	if err := errors.Join(files.WriteAbsent(of.Manifest, []byte(text)),
		files.WriteAbsent(of.Secret, []byte(rand.Text()+rand.Text()))); err != nil {
		return nil, nil, err
	}
	record, err := sqlite.Open(ctx, in("state/api.db"), sqlite.Options{Now: time.Now})
	if err != nil {
		return nil, nil, err
	}
	server, err := gate.FromFiles(ctx, of, record.Consume)
	if err != nil {
		return nil, nil, errors.Join(err, record.Close())
	}
	return server, record.Close, nil
}

func listen(dir, address string) (net.Listener, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "api.pem"), filepath.Join(dir, "api.key"))
	if err != nil {
		return nil, err
	}
	return tls.Listen("tcp", address, &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
	})
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return endpoint.Serve(ctx, l, h, endpoint.Limits{}, time.Second, zap.NewNop())
}

// ServeModel serves the agent's model without a credential until ctx ends. It calls ready with its address.
func ServeModel(ctx context.Context, address string, ready func(address string)) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ready(l.Addr().String())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", agent.ServeModel)
	return serve(ctx, l, mux)
}
