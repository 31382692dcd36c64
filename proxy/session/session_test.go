package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/session"
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
