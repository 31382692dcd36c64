// Command api is an API that accepts a post only with the whole chain of evidence behind it. It keeps what was used in an SQLite file.
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger/sqlite"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "address to listen on")
	dir := flag.String("dir", "trust", "folder with registry.jwk, auditor.jwk, manifest.yaml, bundle.json, secret, tls.crt and tls.key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *dir); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, listen, dir string) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	used, err := sqlite.Open(ctx, in("used.db"), sqlite.Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer used.Close()
	server, err := gate.FromFiles(ctx, gate.Files{
		Registry: in("registry.jwk"), Auditor: in("auditor.jwk"), // public keys of the two roots
		Manifest: in("manifest.yaml"), Bundle: in("bundle.json"), // read again when they change
		Secret:  in("secret"), // at least 32 random bytes of your own
		Name:    "my-api",
		Changed: logChange,
	}, used.Consume)
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("POST /.well-known/actionproof/challenge", server.Challenge())
	mux.Handle("POST /.well-known/actionproof/verify", server.Verify())
	mux.Handle("POST /posts", server.Middleware(http.HandlerFunc(makePost), gate.Protect{
		Bind:    func(*http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
		Refused: func(_ *http.Request, err error) { log.Print("refused: ", err) },
	}))

	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	log.Print("listening on ", l.Addr())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = s.Shutdown(context.Background())
	}()
	if err := s.ServeTLS(l, in("tls.crt"), in("tls.key")); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// logChange is told of each change of the manifest or the bundle.
func logChange(err error) {
	if err != nil {
		log.Print("manifest and bundle stay as they were: ", err)
		return
	}
	log.Print("manifest and bundle: taken over")
}

// makePost is what your API does. The middleware has verified and consumed the evidence.
func makePost(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // whole, as it was hashed
	if err != nil {
		http.Error(w, "not made", http.StatusInternalServerError)
		return
	}
	log.Printf("posted %d bytes: %s", len(body), gate.AssuranceFrom(r.Context()).Claim)
	w.WriteHeader(http.StatusCreated)
}
