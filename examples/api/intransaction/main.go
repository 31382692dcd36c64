// Command intransaction is an API that makes its posts in PostgreSQL. The evidence of a post is consumed in the transaction that makes
// the post.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger/postgres"
)

func main() {
	ctx := context.Background()
	dsn, err := os.ReadFile("trust/database") // with a password, so not on the command line
	if err != nil {
		log.Fatal(err)
	}
	handler, err := routes(ctx, strings.TrimSpace(string(dsn)))
	if err != nil {
		log.Fatal(err)
	}
	s := &http.Server{Addr: "127.0.0.1:8443", Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(s.ListenAndServeTLS("trust/tls.crt", "trust/tls.key"))
}

func routes(ctx context.Context, dsn string) (http.Handler, error) {
	used, err := postgres.Open(ctx, dsn, postgres.Options{Now: time.Now, Instance: "my-api-1"}) // makes its tables
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	server, err := gate.FromFiles(ctx, gate.Files{
		Registry: "trust/registry.jwk", Auditor: "trust/auditor.jwk", Secret: "trust/secret", Name: "my-api",
		Manifest: "https://security.example.com/manifest.yaml", Bundle: "https://security.example.com/bundle.json",
		Pins: []string{"sha256//RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o="},
	}, used.Consume)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /.well-known/actionproof/challenge", server.Challenge())
	mux.Handle("POST /.well-known/actionproof/verify", server.Verify())
	mux.Handle("POST /posts", server.Middleware(http.HandlerFunc(makePost), gate.Protect{
		Bind:          func(*http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
		InTransaction: gate.SQL(db, postgres.Consume),
	}))
	return mux, nil
}

func makePost(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = gate.Tx(r.Context()).ExecContext(r.Context(), `INSERT INTO posts (content) VALUES ($1)`, string(body))
	}
	if err != nil {
		http.Error(w, "not made", http.StatusInternalServerError) // 400 or more: nothing is made, nothing is consumed
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated) // goes out once the transaction is committed
	_ = json.NewEncoder(w).Encode(gate.AssuranceFrom(r.Context()))
}
