package translog

import (
	"context"
	"net/http"
	"strings"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/sync/semaphore"

	"github.com/actionproof/mediator/ledger"
)

// Handler publishes a log as c2sp.org/tlog-tiles has it, below the root of its URLs: checkpoint, tile/ and
// tile/entries/. Its checkpoint is the last one that the log's policy accepted. Everything else never changes, so that
// a CDN can serve it.
func Handler(store ledger.TreeReader) http.Handler {
	mux, reads := http.NewServeMux(), semaphore.NewWeighted(maxReads)
	inTurn := func(ctx context.Context, read func() error) error {
		wait, cancel := context.WithTimeout(ctx, readWait)
		defer cancel()
		if err := reads.Acquire(wait, 1); err != nil {
			return err
		}
		defer reads.Release(1)
		return read()
	}
	mux.HandleFunc("GET /checkpoint", func(w http.ResponseWriter, r *http.Request) {
		var c ledger.Checkpoints
		err := inTurn(r.Context(), func() (err error) {
			_, c, err = store.TreeHead(r.Context())
			return err
		})
		answer(w, "text/plain; charset=utf-8", "no-cache", []byte(c.Accepted.Note), err)
	})
	mux.HandleFunc("GET /tile/", func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/")
		t, err := torchwood.ParseTilePath(path)
		if err != nil || torchwood.TilePath(t) != path || t.L > maxLevel {
			http.NotFound(w, r)
			return
		}
		parts := []ledger.Tile{{Level: t.L, N: t.N}}
		err = inTurn(r.Context(), func() error { return store.Tiles(r.Context(), parts) })
		answer(w, "application/octet-stream", "public, max-age=31536000, immutable", cut(t, parts[0].Data), err)
	})
	return mux
}

// maxReads bounds the reads at once, and readWait how long one waits for its turn: posts read the same ledger, and
// strangers must not keep them out.
const maxReads, readWait = 2, 5 * time.Second

// maxLevel bounds a tile's level, as c2sp.org/tlog-tiles does.
const maxLevel = 63

// answer writes what is stored, 404 if nothing is, or 503 if that is unknown.
func answer(w http.ResponseWriter, contentType, cache string, body []byte, err error) {
	switch {
	case err != nil:
		http.Error(w, "the log cannot be read now", http.StatusServiceUnavailable)
	case len(body) == 0:
		http.Error(w, "the log does not have this", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", cache)
		_, _ = w.Write(body)
	}
}
