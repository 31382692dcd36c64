package trigger_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/trigger"
)

func TestSend(t *testing.T) {
	hub := must(
		trigger.NewGitHub("hub", []string{secret}, []string{"issues", "release.published"},
			[]string{"workflow_dispatch"}))(t)
	other := must(trigger.NewGitHub("hub", []string{secret + ", and another"}, []string{"issues"}, nil))(t)
	releases := must(trigger.NewGitHub("hub", []string{secret}, []string{"release.published"}, nil))(t)
	hooks := hooks(t, secret)
	k := newKit(t, sourced(hub, hooks))
	server := httptest.NewServer(k.Webhooks())
	defer server.Close()
	for _, tt := range []struct {
		name        string
		from        *trigger.Webhook
		event, body string
		want        string // the event's type, "ignored", "duplicate", or the code of a refusal
	}{
		{"the event that suits the action", hub, "", `{"action":"published"}`, "release.published"},
		{"the same body", hub, "", `{"action":"published"}`, "duplicate"},
		{"an event of any action", hub, "", `{"action":"labeled"}`, "issues.labeled"},
		{"an action that no event has", releases, "", `{"action":"labeled","n":0}`, "internal"},
		{"a named event", hub, "issues", `{"n":1}`, "issues"},
		{"an event of no interest", hub, "star", `{"n":2}`, "ignored"},
		{"another secret", other, "issues", `{"n":3}`, "webhook_signature"},
		{"a body that is no object", hub, "issues", `[]`, "event_malformed"},
		{"a Standard Webhook", hooks, "", `{"type":"made"}`, "made"},
		{"a Standard Webhook with an event", hooks, "made", `{"type":"made"}`, "internal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer, err := tt.from.Send(t.Context(), server.Client(), server.URL+"/hooks/"+tt.from.Name(), tt.event,
				[]byte(tt.body), k.clock.now())
			got := ""
			switch {
			case err != nil:
				got = problem.DetailsOf(err).Code
			case answer.Duplicate:
				got = "duplicate"
			case answer.Ignored:
				got = "ignored"
			default:
				for _, e := range must(k.List(t.Context(), 100))(t) {
					if e.ID == answer.EventID {
						got = e.Type
					}
				}
			}
			if got != tt.want {
				t.Errorf("%q, want %q: %+v %v", got, tt.want, answer, err)
			}
		})
	}
	both := must(trigger.NewGitHub("hub", []string{secret}, []string{"push", "issues"}, nil))(t)
	if answer, err := both.Send(t.Context(), server.Client(), server.URL+"/hooks/hub", "", []byte(`{"n":4}`),
		k.clock.now()); err != nil || !answer.Ignored {
		t.Errorf("the first event that suits is push, which is of no interest: %+v, %v", answer, err)
	}
	if _, err := hooks.Send(t.Context(), server.Client(), "://", "", []byte(`{}`), k.clock.now()); err == nil {
		t.Error("a delivery to no URL succeeds")
	}
	for name, answer := range map[string]string{"no JSON": "<html>", "too long": strings.Repeat(" ", 64<<10) + "{}"} {
		strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, answer)
		}))
		if got, err := hooks.Send(t.Context(), strange.Client(), strange.URL, "", []byte(`{}`), k.clock.now()); err == nil {
			t.Errorf("an answer that is %s is taken: %+v", name, got)
		}
		strange.Close()
	}
	called := false
	idle := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer idle.Close()
	if _, err := hub.Send(t.Context(), idle.Client(), idle.URL, "issues", []byte(`[]`), k.clock.now()); err == nil ||
		called {
		t.Errorf("a body that is no object is delivered: %t, %v", called, err)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if _, err := hooks.Send(t.Context(), gone.Client(), gone.URL, "", []byte(`{}`), k.clock.now()); err == nil {
		t.Error("a delivery to nobody succeeds")
	}
}
