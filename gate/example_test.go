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

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/policy"
)

// newServer is an API's part. It is made of public files: those of the two pinned roots, the trust bundle and the strict manifest; and of
// at least 32 secret bytes of the API's own, the same ones in all of its replicas.
func newServer(registry, auditor, bundle, manifest, secret []byte, consume gate.Consume) (*gate.Server, error) {
	m, err := policy.ParseManifest(manifest)
	if err != nil {
		return nil, err
	}
	strict, err := m.Strict() // refuses a manifest that lacks a safeguard
	if err != nil {
		return nil, err
	}
	registryRoot, err := evidence.ParseRoot(registry, evidence.PurposeSignerCertificate)
	if err != nil {
		return nil, err
	}
	auditorRoot, err := evidence.ParseRoot(auditor, evidence.PurposeDeploymentCertificate)
	if err != nil {
		return nil, err
	}
	b, err := evidence.ParseBundle(bundle)
	if err != nil {
		return nil, err
	}
	trust, err := evidence.NewTrust([]evidence.Root{registryRoot, auditorRoot}, b, strict.Signers)
	if err != nil {
		return nil, err
	}
	verifier, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: time.Now})
	if err != nil {
		return nil, err
	}
	key, err := evidence.NewSecret(secret)
	if err != nil {
		return nil, err
	}
	challenges, err := challenge.NewIssuer(key, challenge.Options{Issuer: "my-api", Audience: "my-api", Now: time.Now})
	if err != nil {
		return nil, err
	}
	g, err := gate.New(gate.Options{Challenges: challenges, Secret: key, Issuer: "my-api", Verifier: verifier, Strict: strict})
	if err != nil {
		return nil, err
	}
	return gate.NewServer(g, consume)
}

// routes are the API's two endpoints, and the middleware before the one that it protects.
func routes(server *gate.Server, posts http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /.well-known/actionproof/challenge", server.Challenge())
	mux.Handle("POST /.well-known/actionproof/verify", server.Verify())
	mux.Handle("POST /posts", server.Middleware(posts, gate.Protect{
		Bind: func(r *http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
	}))
	return mux
}

// An API that takes part, with what it has consumed in an SQLite file.
func Example() {
	var (
		registry, auditor, bundle, manifest, secret []byte       // read from files
		posts                                       http.Handler // what the API has had all along
	)
	used, err := ledger.Open(context.Background(), filepath.Join(os.TempDir(), "used.db"), ledger.Options{Now: time.Now})
	if err != nil {
		log.Fatal(err)
	}
	defer used.Close()
	server, err := newServer(registry, auditor, bundle, manifest, secret, used.Consume)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", routes(server, posts)))
}

// routesInTransaction is routes for an API that makes its posts in PostgreSQL.
func routesInTransaction(server *gate.Server, db *sql.DB) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /posts", server.Middleware(http.HandlerFunc(makePost), gate.Protect{
		Bind:          func(r *http.Request) (subject, action string) { return "agent:worker-1", "create_post" },
		InTransaction: gate.SQL(db, postgres.Consume),
	}))
	return mux
}

func makePost(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the middleware has read it already
	if _, err := gate.Tx(r.Context()).ExecContext(r.Context(), `INSERT INTO posts (content) VALUES ($1)`, string(body)); err != nil {
		http.Error(w, "not made", http.StatusInternalServerError) // 400 or more: nothing is made, nothing is consumed
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated) // goes out once the transaction is committed
	_ = json.NewEncoder(w).Encode(gate.AssuranceFrom(r.Context()))
}

// consumeIn consumes keys in a table of the API's own:
//
//	CREATE TABLE consumed (kind text, id text, expires bigint NOT NULL, PRIMARY KEY (kind, id));
func consumeIn(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error { // for gate.SQL
	for _, k := range keys {
		r, err := tx.ExecContext(ctx, `INSERT INTO consumed (kind, id, expires) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, k.Kind, k.ID, k.Expires.Unix())
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil {
			return err
		} else if n != 1 {
			return &ledger.ConsumedError{Key: k} // used before: roll back
		}
	}
	return nil
}

// An API that makes its posts in PostgreSQL: the keys are consumed in the transaction in which the handler inserts its row. It answers with
// the report on what the evidence amounts to.
func ExampleSQL() {
	var (
		registry, auditor, bundle, manifest, secret []byte // read from files
		dsn                                         string // of your database; from a file, not from the command line
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
	server, err := newServer(registry, auditor, bundle, manifest, secret, used.Consume)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", routesInTransaction(server, db)))
}
