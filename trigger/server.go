package trigger

import (
	"context"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/wire"
)

// The requests of the internal API.
type (
	evidenceRequest struct {
		EventID string           `json:"eventId"`
		Binding evidence.Binding `json:"binding"`
	}
	claimRequest struct {
		EventID    string `json:"eventId"`
		Runtime    string `json:"runtime"`
		WaitMillis int64  `json:"waitMillis"`
	}
)

const (
	maxWait   = time.Minute
	listLimit = 100
)

// NewServer answers the internal API, which sidecars use: POST /v1/evidence, POST /v1/events/claim, GET /v1/events and
// GET /v1/events/{id}. Whoever reaches it may have evidence signed, so it must be out of the agent's reach.
func NewServer(s *Service) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/evidence", wire.Handle(func(ctx context.Context, ask evidenceRequest) (Evidence, error) {
		return s.Evidence(ctx, ask.EventID, ask.Binding)
	}))
	mux.Handle("POST /v1/events/claim", wire.Handle(func(ctx context.Context, ask claimRequest) (Event, error) {
		wait := min(max(0, time.Duration(ask.WaitMillis)*time.Millisecond), maxWait)
		return s.Claim(ctx, Claim{EventID: ask.EventID, Runtime: ask.Runtime, Wait: wait})
	}))
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		events, err := s.List(r.Context(), listLimit)
		wire.Write(w, events, err)
	})
	mux.HandleFunc("GET /v1/events/{id}", func(w http.ResponseWriter, r *http.Request) {
		e, err := s.Get(r.Context(), r.PathValue("id"))
		wire.Write(w, e, err)
	})
	return mux
}
