package admin_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/trigger"
)

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestCloseSession: the event of a session that is closed is done, also when the caller has gone meanwhile.
func TestCloseSession(t *testing.T) {
	p := &daemon.Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry()}
	var err error
	if p.Reloader, err = daemon.NewReloader(p.Log, p.Metrics); err != nil {
		t.Fatal(err)
	}
	caller, leave := context.WithCancel(t.Context())
	var done []string
	service := transport(func(r *http.Request) (*http.Response, error) {
		leave()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		asked, err := io.ReadAll(r.Body)
		done = append(done, r.URL.Path+" "+string(asked))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{}`)), Request: r}, err
	})
	a := &admin.Server{
		Process: p, Sessions: session.NewSet(time.Now), Runtime: "runtime-1",
		Triggers: trigger.NewClient("http://trigger", &http.Client{Transport: service}),
	}
	opened, _, err := a.Sessions.Open(trigger.Event{ID: "evt_1"}, "runtime-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	a.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(caller, http.MethodDelete, "/v1/sessions/"+opened.ID, nil))
	if answer.Code != http.StatusNoContent || len(done) != 1 || done[0] != `/v1/events/done {"eventId":"evt_1","runtime":"runtime-1"}` {
		t.Errorf("%d %s; the trigger service was told %q", answer.Code, answer.Body, done)
	}
	if _, open := a.Sessions.Get(opened.ID); open {
		t.Error("the session is open")
	}
}
