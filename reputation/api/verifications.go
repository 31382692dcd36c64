package api

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/verification"
)

// Verifications are what operators see of verifications.
type Verifications interface {
	// Overviews returns the verifications that were opened last.
	Overviews(ctx context.Context) ([]verification.Overview, error)
	// Overview returns one verification. One that is not known is refused.
	Overview(ctx context.Context, session string) (verification.Overview, error)
}

// errNone refuses what a node without verifications is asked for.
func errNone() error {
	return refusal.New("not_found", "the node offers no verification")
}

func (a *server) overviews(_ http.ResponseWriter, r *http.Request) (any, error) {
	all := []verification.Overview{}
	if a.verifications != nil {
		var err error
		if all, err = a.verifications.Overviews(r.Context()); err != nil {
			return nil, err
		}
	}
	return struct {
		Verifications []verification.Overview `json:"verifications"`
	}{all}, nil
}

func (a *server) overview(_ http.ResponseWriter, r *http.Request) (any, error) {
	if a.verifications == nil {
		return nil, errNone()
	}
	return a.verifications.Overview(r.Context(), r.PathValue("session"))
}
