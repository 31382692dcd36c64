package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/trigger"
)

type slowTriggers struct {
	Triggers
	claimed, done []string
	none          bool
}

func (s *slowTriggers) Claim(ctx context.Context, c trigger.Claim) (trigger.Event, error) {
	time.Sleep(time.Second)
	if s.none {
		return trigger.Event{}, refusal.New("event_none", "")
	}
	id := "evt_" + string(rune('1'+len(s.claimed)))
	s.claimed = append(s.claimed, id)
	return trigger.Event{ID: id, ClaimedBy: c.Runtime}, ctx.Err()
}

func (s *slowTriggers) Done(_ context.Context, id, _ string) (trigger.Event, error) {
	s.done = append(s.done, id)
	return trigger.Event{}, nil
}

// TestNextEventTogether: calls that wait for the next event together share it, and no event stays claimed without a
// session.
func TestNextEventTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		triggers := &slowTriggers{}
		p := &Pipeline{o: PipelineOptions{
			Rules: new(Rules), Standing: true, Sessions: session.NewSet(time.Now), Now: time.Now,
			EvidenceOptions: EvidenceOptions{RuntimeID: "worker-1", Triggers: triggers},
			RecordOptions:   RecordOptions{Log: zap.NewNop()},
		}}
		type answer struct{ event, code string }
		answers := make(chan answer, 8)
		next := func(ctx context.Context, wait string) {
			document, err := p.pages().Page(
				httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/event/next?wait="+wait, nil), intercept.Route{})
			if err != nil {
				answers <- answer{code: codeOf(err)}
				return
			}
			answers <- answer{event: document.(own.Event).Event.ID}
		}
		gone, leave := context.WithCancel(t.Context())
		go next(t.Context(), "10s")
		synctest.Wait()
		go next(t.Context(), "10s")
		go next(t.Context(), "500ms")
		go next(t.Context(), "0s")
		go next(gone, "10s")
		synctest.Wait()
		leave()
		time.Sleep(time.Second)
		synctest.Wait()
		want := []answer{{code: "event_none"}, {code: "event_none"}, {code: "event_none"}, {event: "evt_1"}, {event: "evt_1"}}
		for i, w := range want {
			if got := <-answers; got != w {
				t.Errorf("answer %d: %+v, want %+v", i, got, w)
			}
		}

		next(t.Context(), "10s") // ends the open session and gets the next event
		if got := <-answers; got.event != "evt_2" || !slices.Equal(triggers.claimed, []string{"evt_1", "evt_2"}) ||
			!slices.Equal(triggers.done, []string{"evt_1"}) {
			t.Errorf("%+v, claimed %v, done %v", got, triggers.claimed, triggers.done)
		}
		open := func(when string) {
			t.Helper()
			if s := p.o.Sessions.Standing(); s == nil || s.Event.ID != "evt_2" || s.Life().Err() != nil ||
				!slices.Equal(triggers.done, []string{"evt_1"}) {
				t.Errorf("%s: the open session is %+v, done %v", when, s, triggers.done)
			}
		}
		open("after it was opened")
		triggers.none = true
		go next(t.Context(), "10s")
		synctest.Wait()
		open("while the next event is waited for")
		if got := <-answers; got.code != "event_none" {
			t.Errorf("%+v, want event_none", got)
		}
		open("after none came")
	})
}
