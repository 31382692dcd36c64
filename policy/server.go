package policy

import (
	"context"
	"net/http"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/wire"
)

// NewServer answers the internal API, which sidecars use: POST /v1/decide with a [Request], POST /v1/manifests, and GET /v1/jwks with the public keys
// of the given keys (RFC 7517), for a process that does not publish them itself. Whoever reaches it may have decisions signed, so
// it must be out of the agent's reach.
func NewServer(e Decider, keys ...custody.Key) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/decide", wire.Handle(e.Decide))
	mux.Handle("POST /v1/manifests", wire.Handle(func(context.Context, struct{}) (manifests, error) { return manifests{e.Manifests()}, nil }))
	mux.HandleFunc("GET /v1/jwks", func(w http.ResponseWriter, r *http.Request) {
		set, err := jwks(r.Context(), keys)
		wire.Write(w, set, err)
	})
	return mux
}

// manifests is the answer about manifests.
type manifests struct {
	Manifests []string `json:"manifests"`
}

func jwks(ctx context.Context, keys []custody.Key) (jose.JSONWebKeySet, error) {
	set, err := custody.JWKS(ctx, keys...)
	if set.Keys == nil {
		set.Keys = []jose.JSONWebKey{} // RFC 7517 section 5: an array, and not null
	}
	return set, err
}
