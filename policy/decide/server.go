package decide

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
)

// NewServer serves the internal API for sidecars: POST /v1/decide, /v1/accepts and /v1/manifests. A caller can have
// decisions signed, so keep it out of the agent's reach.
func NewServer(e *Engines) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/decide", wire.Handle(e.Decide))
	mux.Handle("POST /v1/accepts", wire.Handle(e.Accepts))
	mux.Handle("POST /v1/manifests", wire.Handle(func(context.Context, struct{}) (policy.Manifests, error) {
		return policy.Manifests{Manifests: e.Manifests()}, nil
	}))
	return mux
}
