package gate_test

import (
	"context"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/actionproof/mediator/challenge"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger"
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
