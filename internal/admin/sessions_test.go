package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/trigger"
)

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func newServer(t *testing.T, service transport) *admin.Server {
	t.Helper()
	p := &daemon.Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry()}
	p.Reloader = daemon.NewReloader(p.Log, p.Metrics)
	return &admin.Server{
		Process: p, Sessions: session.NewSet(time.Now), Runtime: "runtime-1",
		Triggers: trigger.NewClient("http://trigger", &http.Client{Transport: service}),
	}
}

func TestOpenForNobody(t *testing.T) {
	caller, leave := context.WithCancel(t.Context())
	var asked []string
	a := newServer(t, func(r *http.Request) (*http.Response, error) {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		asked = append(asked, r.URL.Path)
		leave()
		raw, err := json.Marshal(trigger.Event{ID: "evt_1"})
		said := httptest.NewRecorder()
		said.Header().Set("Content-Type", "application/json")
		_, _ = said.Write(raw)
		return said.Result(), err
	})
	answer := httptest.NewRecorder()
	ask := strings.NewReader(`{"event":"evt_1"}`)
	a.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(caller, http.MethodPost, "/v1/sessions", ask))
	if runs := a.Sessions.Runs(); len(runs) > 0 {
		t.Errorf("%d sessions are open; the answer was %s", len(runs), answer.Body)
	}
	if want := []string{"/v1/events/claim", "/v1/events/release"}; !slices.Equal(asked, want) {
		t.Errorf("the trigger service was asked %q, want %q", asked, want)
	}
}

func TestCloseSession(t *testing.T) {
	caller, leave := context.WithCancel(t.Context())
	var done []string
	a := newServer(t, func(r *http.Request) (*http.Response, error) {
		leave()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		asked, err := io.ReadAll(r.Body)
		done = append(done, r.URL.Path+" "+string(asked))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{}`)), Request: r}, err
	})
	opened, _, err := a.Sessions.Open(trigger.Event{ID: "evt_1"}, "runtime-1", nil)
	check.Must(t, err)
	answer := httptest.NewRecorder()
	a.Handler().ServeHTTP(answer,
		httptest.NewRequestWithContext(caller, http.MethodDelete, "/v1/sessions/"+opened.ID, nil))
	if answer.Code != http.StatusNoContent || len(done) != 1 ||
		done[0] != `/v1/events/done {"eventId":"evt_1","runtime":"runtime-1"}` {
		t.Errorf("%d %s; the trigger service was told %q", answer.Code, answer.Body, done)
	}
	if _, open := a.Sessions.Get(opened.ID); open {
		t.Error("the session is open")
	}
}

// No agent can turn its session into a learning one, or open one: the request needs a listener in another network.
func TestOpenLearning(t *testing.T) {
	a := newServer(t, nil)
	for allowed, want := range map[bool]string{false: "not_configured", true: "isolation_unavailable"} {
		a.Learning = allowed
		answer := httptest.NewRecorder()
		a.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/sessions",
			strings.NewReader(`{"learning":true,"launcher":true}`)))
		if !strings.Contains(answer.Body.String(), want) || len(a.Sessions.Runs()) > 0 {
			t.Errorf("got %s, want %s", answer.Body, want)
		}
	}
}
