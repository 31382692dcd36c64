package gate_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/actionproof/mediator/challenge"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/policy"
)

// An API that takes part: its two endpoints, and the middleware before the one that it protects.
func Example() {
	var (
		roots  []evidence.Root // the registry's and the auditor's public keys, pinned: evidence.ParseRoot
		bundle evidence.Bundle // the trust bundle: evidence.ParseBundle
		strict *policy.Strict  // policy.ParseManifest, then Manifest.Strict
		secret evidence.Secret // evidence.NewSecret, of at least 32 bytes
		posts  http.Handler    // what the API has had all along
	)
	trust, err := evidence.NewTrust(roots, bundle, strict.Signers)
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: time.Now})
	if err != nil {
		log.Fatal(err)
	}
	challenges, err := challenge.NewIssuer(secret, challenge.Options{Issuer: "my-api", Audience: "my-api", Now: time.Now})
	if err != nil {
		log.Fatal(err)
	}
	g, err := gate.New(gate.Options{Challenges: challenges, Secret: secret, Issuer: "my-api", Verifier: verifier, Strict: strict})
	if err != nil {
		log.Fatal(err)
	}
	used, err := ledger.Open(context.Background(), filepath.Join(os.TempDir(), "used.db"), ledger.Options{Now: time.Now})
	if err != nil {
		log.Fatal(err)
	}
	defer used.Close()
	server, err := gate.NewServer(g, func(ctx context.Context, keys []ledger.Key) error { return used.Consume(ctx, keys...) })
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("POST /.well-known/actionproof/challenge", server.Challenge())
	mux.Handle("POST /.well-known/actionproof/verify", server.Verify())
	mux.Handle("POST /posts", server.Middleware(posts, gate.Protect{
		Bind: func(*http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
	}))
}

// An API that makes its posts in PostgreSQL: the keys are consumed in the transaction in which the handler inserts its row. It keeps the
// report on what the evidence amounts to beside the row, and answers with it.
func ExampleSQL() {
	var (
		g   *gate.Gate // as above
		dsn string     // of your database; from a file, not from the command line
	)
	used, err := postgres.Open(context.Background(), dsn, postgres.Options{Now: time.Now, Instance: "my-api-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer used.Close()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		log.Fatal(err)
	}
	server, err := gate.NewServer(g, func(ctx context.Context, keys []ledger.Key) error { return used.Consume(ctx, keys...) })
	if err != nil {
		log.Fatal(err)
	}
	posts := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		report, err := json.Marshal(gate.AssuranceFrom(r.Context()))
		if err != nil {
			http.Error(w, "no report", http.StatusInternalServerError) // 400 or more: nothing is made, nothing is consumed
			return
		}
		body, _ := io.ReadAll(r.Body) // the middleware has read it already
		if _, err := gate.Tx(r.Context()).ExecContext(r.Context(), `INSERT INTO posts (body, assurance) VALUES ($1, $2)`, string(body), string(report)); err != nil {
			http.Error(w, "not made", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated) // goes out once the transaction is committed
		_, _ = w.Write(report)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /posts", server.Middleware(posts, gate.Protect{
		Bind:          func(*http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
		InTransaction: gate.SQL(db, postgres.Consume),
	}))
}
