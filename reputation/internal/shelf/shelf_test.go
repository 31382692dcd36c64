package shelf

import (
	"context"
	"fmt"
	"testing"
)

func TestShelfIsBounded(t *testing.T) {
	s := New[string, int](100)
	for i := range 50 {
		for _, id := range []string{fmt.Sprint(i), "often"} {
			r, release, ok := s.Take(t.Context(), id)
			if !ok {
				t.Fatalf("nobody has %v, and it is not to be had", id)
			}
			s.Weigh(id, r, 30)
			release()
		}
	}
	if _, ok := s.byKey.Get("often"); s.byKey.Total() > 100 || s.byKey.Len() > 4 || !ok {
		t.Errorf("%d receipts of %d sessions", s.byKey.Total(), s.byKey.Len())
	}
	often := "often"
	one, release, _ := s.Take(t.Context(), often)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, ok := s.Take(ended, often); ok {
		t.Error("two have one session")
	}
	s.Weigh(often, one, 1000) // more than all may have: it alone is kept
	if s.byKey.Len() != 1 || s.byKey.Total() != 1000 {
		t.Errorf("%d receipts of %d sessions", s.byKey.Total(), s.byKey.Len())
	}
	release()
	if _, _, ok := s.Take(t.Context(), "next"); !ok || s.byKey.Total() != 1 {
		t.Errorf("%d receipts, %v", s.byKey.Total(), ok)
	}
	s.Weigh(often, one, 2000) // it was dropped
	if s.byKey.Total() != 1 {
		t.Errorf("%d receipts", s.byKey.Total())
	}
	again, _, _ := s.Take(t.Context(), often)
	if s.Weigh(often, one, 2000); again == one || s.byKey.Total() != 2 {
		t.Errorf("a dropped session still has a weight: %d receipts", s.byKey.Total())
	}
}
