package trigger

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
)

// Accepted is the answer to a delivery.
type Accepted struct {
	EventID   string `json:"eventId,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"` // known already
	Ignored   bool   `json:"ignored,omitempty"`   // verified, but starts nothing
}

// Webhooks serves POST /hooks/{source}. It answers 202 once the delivery is durable, or {"ignored":true} if it starts
// nothing. A repeated delivery gets 200 and {"duplicate":true}, because senders repeat until they succeed. Refusals are
// problem documents: not_found 404, event_malformed 400, webhook_signature 401, content_too_large 413.
func (s *Service) Webhooks() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{source}", func(w http.ResponseWriter, r *http.Request) {
		answer, err := s.deliver(w, r)
		if err != nil {
			s.strangers.Warn("delivery refused", zap.String("source", s.sourceOf(r)),
				zap.String("code", problem.DetailsOf(err).Code), zap.Error(err))
			problem.Write(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if answer.Duplicate {
			w.WriteHeader(http.StatusOK)
		} else {
			w.WriteHeader(http.StatusAccepted)
		}
		_ = json.NewEncoder(w).Encode(answer) // a sender that has left repeats the delivery
	})
	return mux
}

// sourceOf returns the name of the delivery's source, or "" if unknown: strangers must not write into the log.
func (s *Service) sourceOf(r *http.Request) string {
	if hook, ok := s.from.Load().hooks[r.PathValue("source")]; ok {
		return hook.name
	}
	return ""
}

func (s *Service) deliver(w http.ResponseWriter, r *http.Request) (Accepted, error) {
	hook, ok := s.from.Load().hooks[r.PathValue("source")]
	if !ok {
		return Accepted{}, refusal.New("not_found", "no webhook has the name %.80q", r.PathValue("source"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxPayload))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return Accepted{}, refusal.New("content_too_large", "the delivery is larger than %d bytes", MaxPayload)
	} else if err != nil {
		return Accepted{}, refusal.New("event_malformed", "the delivery broke off")
	}
	a, class, err := hook.accept(r.Header, body, s.o.Now())
	if err != nil {
		return Accepted{}, err
	}
	failpoint.Reach("delivered")
	var id string
	var fresh bool
	if class == ignored {
		// Use its keys up all the same: with another event's name, in an unsigned header, it might start a run.
		id, fresh, err = s.store.once(r.Context(), a.source, "", a.singleUse(), func(db.Tx) error { return nil })
	} else {
		id, fresh, err = s.add(r.Context(), a)
	}
	if err != nil {
		return Accepted{}, err
	}
	failpoint.Reach("kept")
	return Accepted{EventID: id, Duplicate: !fresh, Ignored: id == ""}, nil
}
