package reputation

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func TestSessionsAreBounded(t *testing.T) {
	s := newSessions(100)
	for i := range 50 {
		for _, id := range []string{fmt.Sprint(i), "often"} {
			r, release, err := s.take(t.Context(), sessionKey{"o", id})
			check.Must(t, err)
			s.weigh(r, 30)
			release()
		}
	}
	if _, ok := s.byKey.Get(sessionKey{"o", "often"}); s.byKey.Total() > 100 || s.byKey.Len() > 4 || !ok {
		t.Errorf("%d receipts of %d sessions", s.byKey.Total(), s.byKey.Len())
	}
	one, release, err := s.take(t.Context(), sessionKey{"o", "often"})
	check.Must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.take(ended, one.key); !errors.Is(err, errBusy) {
		t.Errorf("two have one session: %v", err)
	}
	s.weigh(one, 1000) // more than all may have: it alone is kept
	if s.byKey.Len() != 1 || s.byKey.Total() != 1000 {
		t.Errorf("%d receipts of %d sessions", s.byKey.Total(), s.byKey.Len())
	}
	release()
	if _, _, err := s.take(t.Context(), sessionKey{"o", "next"}); err != nil || s.byKey.Total() != 1 {
		t.Errorf("%d receipts, %v", s.byKey.Total(), err)
	}
	s.weigh(one, 2000) // it was dropped
	if s.byKey.Total() != 1 {
		t.Errorf("%d receipts", s.byKey.Total())
	}
}
