package decide

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
)

// NewServer answers the internal API, which sidecars use: POST /v1/decide with a
// [policy.Request], POST /v1/accepts and POST /v1/manifests. Whoever reaches it
// may have decisions signed, so it must be out of the agent's reach.
func NewServer(e *Engines) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/decide", wire.Handle(e.Decide))
	mux.Handle("POST /v1/accepts", wire.Handle(e.Accepts))
	mux.Handle("POST /v1/manifests", wire.Handle(func(context.Context, struct{}) (policy.Manifests, error) {
		return policy.Manifests{Manifests: e.Manifests()}, nil
	}))
	return mux
}
