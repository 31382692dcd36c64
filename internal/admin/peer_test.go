package admin_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/wire"
)

// TestPeerOfOnePurpose: a peer that has a say in one purpose is not heard in anything else.
func TestPeerOfOnePurpose(t *testing.T) {
	at := config.Endpoint{Unix: filepath.Join(t.TempDir(), "node.sock")}
	l, err := daemon.Listen(at, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	seen := []observe.Observation{
		observe.New(observe.Human, observe.Holds, "No human is behind anything."),
		observe.New(observe.Custody, observe.Contradicts, "The sidecar's key can be exported.").For("request_proof"),
		observe.New(observe.Custody, observe.Holds, "Its own key cannot be exported.").For("appraiser"),
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- daemon.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { wire.Write(w, seen, nil) }), daemon.Limits{}, time.Second, zap.NewNop())
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for purpose, want := range map[string]int{"": 3, "appraiser": 1} {
		got, err := admin.Peer{Name: "reputation", At: at, Purpose: purpose}.Observations(t.Context(), 0)
		if err != nil || len(got) != want || got[len(got)-1] != seen[2] {
			t.Errorf("of the purpose %q there are %v, %v", purpose, got, err)
		}
	}
}
