package translog_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog"
)

// slowStore counts the reads at once.
type slowStore struct {
	ledger.TreeReader
	now, most atomic.Int64
}

func (s *slowStore) read() {
	n := s.now.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Millisecond)
	s.now.Add(-1)
}

func (s *slowStore) Tiles(_ context.Context, tiles []ledger.Tile) error {
	s.read()
	tiles[0].Data = make([]byte, 256*32)
	return nil
}

func (s *slowStore) TreeHead(context.Context) (ledger.TreeHead, ledger.Checkpoints, error) {
	s.read()
	return ledger.TreeHead{}, ledger.Checkpoints{Accepted: ledger.Checkpoint{Note: "x"}}, nil
}

// TestFlood: strangers read little of the ledger at once, which posts need, too.
func TestFlood(t *testing.T) {
	store := new(slowStore)
	h := translog.Handler(store)
	var all sync.WaitGroup
	for range 8 {
		for _, path := range []string{"/tile/0/000", "/checkpoint"} {
			all.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				if w.Code != http.StatusOK {
					t.Errorf("%s: %d", path, w.Code)
				}
			})
		}
	}
	all.Wait()
	if most := store.most.Load(); most > 2 {
		t.Errorf("%d reads at once", most)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/checkpoint", nil).WithContext(gone))
	if w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
		t.Errorf("one that has left: %d", w.Code)
	}
}
