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
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

func TestPeerSees(t *testing.T) {
	at := config.Endpoint{Unix: filepath.Join(t.TempDir(), "node.sock")}
	l, err := endpoint.Listen(at, nil, zap.NewNop())
	check.Must(t, err)
	seen := []look.Observation{
		look.New(look.Human, look.Holds, "No human is behind anything."),
		look.New(look.Custody, look.Contradicts, "The sidecar's key can be exported.").For("request_proof"),
		look.New(look.Custody, look.Holds, "Its own key cannot be exported.").For("appraiser"),
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- endpoint.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			wire.Write(w, seen, nil)
		}), endpoint.Limits{}, time.Minute, zap.NewNop())
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	client, base := endpoint.Client(config.Peer{Unix: at.Unix}, nil)
	defer client.CloseIdleConnections()
	for sees, want := range map[string]look.Observation{"human": seen[0], "appraiser": seen[2]} {
		got, err := admin.Peer{Name: "reputation", HTTP: client, Base: base, Sees: []string{sees}}.Observations(
			t.Context(), 0)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("of %q there are %v, %v", sees, got, err)
		}
	}
}
