package daemon_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
)

func TestNextState(t *testing.T) {
	t.Parallel()
	p := &daemon.Process{Log: zap.NewNop(), Metrics: daemon.NewMetrics(), Keys: new(rotated)}
	p.Reloader = daemon.NewReloader(p.Log, p.Metrics)
	if _, err := p.AddRole("runtime_attestation", config.SigningKey{Key: "key", Issuer: "issuer"}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p.Mux())
	defer server.Close()
	next := func(known string) string {
		resp, err := http.Get(server.URL + "/v1/roles/state?unlike=" + known)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		var now daemon.RolesState
		if err := json.NewDecoder(resp.Body).Decode(&now); err != nil || now.State == "" {
			t.Errorf("got %d, %v", resp.StatusCode, err)
		}
		return now.State
	}
	first := next("")
	changed := make(chan string)
	go func() { changed <- next(first) }()
	p.Keys.(*rotated).rotate()
	if now := <-changed; now == first {
		t.Error("the answer is the state before the change")
	}
}

type rotated struct {
	key atomic.Pointer[custody.Memory]
}

func (r *rotated) rotate() {
	key, err := custody.NewMemory("key")
	if err != nil {
		panic(err)
	}
	r.key.Store(key)
}

func (r *rotated) Key(string, string) (custody.Key, error) {
	r.rotate()
	return rotatedKey{r.key.Load(), r}, nil
}
func (r *rotated) Open(context.Context) error { return nil }
func (r *rotated) Close() error               { return nil }

type rotatedKey struct {
	*custody.Memory
	r *rotated
}

func (k rotatedKey) Versions(ctx context.Context) ([]custody.Version, error) {
	return k.r.key.Load().Versions(ctx)
}
