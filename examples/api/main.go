// Command api is an API that makes a post only with the whole chain of evidence behind it. It keeps its posts in
// PostgreSQL, and consumes the evidence of a post in the transaction that makes the post.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger/postgres"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "address to listen on")
	dir := flag.String("dir", "trust", "folder with the keys, the manifest, the bundle and the secrets")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *dir); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, listen, dir string) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	secret, err := os.ReadFile(in("database")) // with a password, so not on the command line
	if err != nil {
		return err
	}
	dsn := strings.TrimSpace(string(secret))
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(16) // each replay of a post that is being made waits with a connection
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS posts (content text NOT NULL)`); err != nil {
		return err
	}
	// used makes its own tables. Give each replica an Instance of its own.
	used, err := postgres.Open(ctx, dsn, postgres.Options{Now: time.Now, Instance: "my-api-1"})
	if err != nil {
		return err
	}
	defer used.Close()
	server, err := gate.FromFiles(ctx, gate.Files{
		Registry: in("registry.jwk"), Auditor: in("auditor.jwk"),
		Manifest: in("manifest.json"), Bundle: in("bundle.json"), // read again when they change
		Secret:  in("secret"),
		Name:    "my-api",
		Changed: func(err error) { log.Print("manifest or bundle changed; error: ", err) },
	}, used.Consume)
	if err != nil {
		return err
	}
	answerKey, err := readKey(in("answer.key"))
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("POST /.well-known/actionproof/challenge", server.Challenge())
	mux.Handle("POST /.well-known/actionproof/verify", server.Verify())
	mux.Handle("POST /posts", server.Middleware(http.HandlerFunc(makePost), gate.Protect{
		Bind:          func(*http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
		InTransaction: gate.SQL(db, postgres.Consume),
		Sign:          answerKey,
		Refused:       func(_ *http.Request, err error) { log.Print("refused: ", err) },
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

// readKey reads the Ed25519 key that signs the answers.
func readKey(path string) (ed25519.PrivateKey, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key in PEM", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an Ed25519 key", path)
	}
	return private, nil
}

// makePost is your API's work. The middleware has verified the evidence, and has consumed it in the same transaction.
func makePost(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = gate.Tx(r.Context()).ExecContext(r.Context(), `INSERT INTO posts (content) VALUES ($1)`, string(body))
	}
	if err != nil {
		http.Error(w, "not made", http.StatusInternalServerError) // 400 or more: nothing is made, nothing is consumed
		return
	}
	log.Printf("posted %d bytes: %s", len(body), gate.AssuranceFrom(r.Context()).Claim)
	w.WriteHeader(http.StatusCreated) // goes out once the transaction is committed
}
