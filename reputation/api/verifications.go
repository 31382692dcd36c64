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
	return refusal.New("verification_unknown", "the node offers no verification")
}

func (a *server) overviews(w http.ResponseWriter, r *http.Request) error {
	all := []verification.Overview{}
	if a.verifications != nil {
		var err error
		if all, err = a.verifications.Overviews(r.Context()); err != nil {
			return err
		}
	}
	return write(w, struct {
		Verifications []verification.Overview `json:"verifications"`
	}{all})
}

func (a *server) overview(w http.ResponseWriter, r *http.Request) error {
	if a.verifications == nil {
		return errNone()
	}
	one, err := a.verifications.Overview(r.Context(), r.PathValue("session"))
	if err != nil {
		return err
	}
	return write(w, one)
}
