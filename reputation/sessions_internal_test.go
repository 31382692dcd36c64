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
	if s.total > 100 || len(s.byKey) != s.recent.Len() || len(s.byKey) > 4 || s.byKey[sessionKey{"o", "often"}] == nil {
		t.Errorf("%d receipts of %d sessions", s.total, len(s.byKey))
	}
	one, release, err := s.take(t.Context(), sessionKey{"o", "often"})
	check.Must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.take(ended, one.key); !errors.Is(err, errBusy) {
		t.Errorf("two have one session: %v", err)
	}
	s.weigh(one, 1000) // more than all may have: it alone is kept
	if len(s.byKey) != 1 || s.total != 1000 {
		t.Errorf("%d receipts of %d sessions", s.total, len(s.byKey))
	}
	release()
	if other, _, err := s.take(t.Context(), sessionKey{"o", "next"}); err != nil || s.total != 1 || other.weight != 1 {
		t.Errorf("%d receipts, %v", s.total, err)
	}
	s.weigh(one, 2000) // it was dropped
	if s.total != 1 {
		t.Errorf("%d receipts", s.total)
	}
}
