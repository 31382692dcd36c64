package trigger

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/wire"
)

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
	finishRequest struct {
		EventID string `json:"eventId"`
		Runtime string `json:"runtime"`
	}
	unsentRequest struct {
		EventID     string `json:"eventId"`
		Runtime     string `json:"runtime"`
		Action      string `json:"action"`
		BindingHash string `json:"bindingHash"`
	}
	reportRequest struct {
		Kind    string          `json:"kind"`
		Method  string          `json:"method"`
		Source  string          `json:"source"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
)

const listLimit = 100

// NewServer serves the internal API for sidecars and operators. A caller can get evidence signed, so keep it out of the
// agent's reach.
func NewServer(s *Service) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/evidence", wire.Handle(func(ctx context.Context, ask evidenceRequest) (Evidence, error) {
		return s.Evidence(ctx, ask.EventID, ask.Binding)
	}))
	mux.Handle("POST /v1/evidence/unsent", wire.Handle(func(ctx context.Context, ask unsentRequest) (struct{}, error) {
		if err := wire.CheckRuntime(ctx, ask.Runtime); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.Unsent(ctx, ask.EventID, ask.Runtime, ask.Action, ask.BindingHash)
	}))
	mux.Handle("POST /v1/events/claim", wire.Handle(func(ctx context.Context, ask claimRequest) (Event, error) {
		if err := wire.CheckRuntime(ctx, ask.Runtime); err != nil {
			return Event{}, err
		}
		wait := time.Duration(min(max(0, ask.WaitMillis), maxWait.Milliseconds())) * time.Millisecond
		return s.Claim(ctx, Claim{EventID: ask.EventID, Runtime: ask.Runtime, Wait: wait})
	}))
	for path, finish := range map[string]func(ctx context.Context, id, runtime string) (Event, error){
		"release": s.Release, "done": s.Done,
	} {
		mux.Handle("POST /v1/events/"+path, wire.Handle(func(ctx context.Context, ask finishRequest) (Event, error) {
			if err := wire.CheckRuntime(ctx, ask.Runtime); err != nil {
				return Event{}, err
			}
			return finish(ctx, ask.EventID, ask.Runtime)
		}))
	}
	mux.Handle("POST /v1/events", wire.Handle(func(ctx context.Context, ask reportRequest) (Accepted, error) {
		id, err := s.Report(ctx, ask.Kind, ask.Method, ask.Source, ask.Payload)
		return Accepted{EventID: id}, err
	}))
	mux.Handle("GET /v1/events", wire.Answer(func(r *http.Request) ([]Event, error) {
		return s.List(r.Context(), listLimit)
	}))
	mux.Handle("GET /v1/events/{id}", wire.Answer(func(r *http.Request) (Event, error) {
		return s.Get(r.Context(), r.PathValue("id"))
	}))
	return mux
}
