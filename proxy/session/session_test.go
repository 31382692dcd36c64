package session_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/trigger"
)

func TestSessionsAreBounded(t *testing.T) {
	s := session.NewSet(time.Now)
	for range 4096 {
		_, _, err := s.Open(trigger.Event{ID: "evt"}, "worker-1", nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Open(trigger.Event{ID: "evt"}, "worker-1", nil); !errors.Is(err, refusal.New("overloaded", "")) {
		t.Errorf("got %v", err)
	}
}

// basic returns proxy credentials.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestSessions(t *testing.T) {
	s := session.NewSet(time.Now)
	session, password, err := s.Open(trigger.Event{ID: "evt_1"}, "worker-1", nil)
	check.Must(t, err)
	credentials := basic(session.ID, password)
	for _, header := range []string{credentials, "b" + credentials[1:], strings.Replace(credentials, " ", "   ", 1)} {
		if got, err := s.Find(header); err != nil || got != session {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	_, err = s.Find("")
	check.WantCode(t, err, "session_required")
	standing := s.OpenStanding(trigger.Event{ID: "evt_2"}, "worker-1", "")
	if got, err := s.Find(""); err != nil || got != standing {
		t.Errorf("got %v, %v", got, err)
	}
	for name, header := range map[string]string{
		"wrong password": basic(session.ID, password+"x"), "no password": basic(session.ID, ""),
		"unknown session":                      basic("ses_x", password),
		"the standing session has no password": basic(standing.ID, ""), "no Basic": "Bearer x", "no base64": "Basic %",
		"a tab": strings.Replace(credentials, " ", "\t", 1), "no space": strings.Replace(credentials, " ", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Find(header)
			check.WantCode(t, err, "session_required")
		})
	}
	first := session.Transcript()
	session.Note("a")
	second := session.Transcript()
	session.Note("a")
	if first == second || second == session.Transcript() || !evidence.IsHash(second) {
		t.Error("the transcript does not grow with each call")
	}
	if !s.Close(session.ID) || s.Close(session.ID) {
		t.Error("a session is closed once")
	}
	_, err = s.Find(basic(session.ID, password))
	check.WantCode(t, err, "session_required")
	if session.Life().Err() == nil {
		t.Error("the life of a closed session has not ended")
	}
}

// Only the listener identifies such a session; it has no password.
func TestSessionOfAListener(t *testing.T) {
	s := session.NewSet(time.Now)
	session, err := s.OpenListening(trigger.Event{ID: "evt_1"}, "worker-1", nil)
	check.Must(t, err)
	other, password, err := s.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil)
	check.Must(t, err)
	for _, header := range []string{"", basic(other.ID, password), "Bearer x"} {
		if got, err := s.Of(intercept.Route{Session: session.ID, ProxyAuthorization: header}); err != nil ||
			got != session {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	for _, header := range []string{basic(session.ID, ""), basic(session.ID, password),
		basic(session.ID, strings.Repeat("\x00", 32))} {
		_, err := s.Of(intercept.Route{ProxyAuthorization: header})
		check.WantCode(t, err, "session_required")
	}
	s.OpenStanding(trigger.Event{ID: "evt_3"}, "worker-1", "")
	s.Close(session.ID)
	_, err = s.Of(intercept.Route{Session: session.ID})
	check.WantCode(t, err, "session_required")
}

// Each agent's pod has a standing session of its own, and finds no other. The one silent for the longest time makes
// room.
func TestSessionsOfPods(t *testing.T) {
	now := time.Unix(1, 0)
	s := session.NewSet(func() time.Time { now = now.Add(time.Second); return now })
	s.OpenStanding(trigger.Event{ID: "evt_0"}, "worker-1", "")
	one := s.OpenStanding(trigger.Event{ID: "evt_1"}, "worker-1", "agent/a/1")
	two := s.OpenStanding(trigger.Event{ID: "evt_2"}, "worker-1", "agent/a/2")
	listening, password, err := s.Open(trigger.Event{ID: "evt_3"}, "worker-1", nil)
	check.Must(t, err)
	for agent, want := range map[string]*session.Session{"agent/a/1": one, "agent/a/2": two} {
		if got, err := s.Of(intercept.Route{Agent: agent}); err != nil || got != want || got.Agent != agent {
			t.Errorf("%s: %v, %v", agent, got, err)
		}
	}
	for _, route := range []intercept.Route{{Agent: "agent/a/3"},
		{Agent: "agent/a/1", ProxyAuthorization: basic(listening.ID, password)}} {
		_, err := s.Of(route)
		check.WantCode(t, err, "session_required")
	}
	for i := range 1024 {
		s.OpenStanding(trigger.Event{ID: "evt"}, "worker-1", fmt.Sprint("agent/b/", i))
		check.WantEqual(t, s.Standing("agent/a/2"), two) // not silent
	}
	_, err = s.Of(intercept.Route{Agent: "agent/a/1"})
	check.WantCode(t, err, "session_required")
	if one.Life().Err() == nil || two.Life().Err() != nil {
		t.Error("the wrong session made room")
	}
}
