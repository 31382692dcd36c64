package gate_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger/postgres"
)

// An API that takes part. The folder examples/api holds it whole.
func ExampleFromFiles() {
	var posts http.Handler // what the API has had all along
	ctx := context.Background()
	used, err := postgres.Open(ctx, "postgres:///api", postgres.Options{Now: time.Now, Instance: "my-api-1"})
	if err != nil {
		log.Fatal(err)
	}
	server, err := gate.FromFiles(ctx, gate.Files{
		Registry: "registry.jwk", Auditor: "auditor.jwk", Manifest: "manifest.json", Bundle: "bundle.json",
		Secret: "secret",
		Name:   "my-api",
	}, used.Consume)
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
