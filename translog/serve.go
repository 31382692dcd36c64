package translog

import (
	"net/http"
	"strings"

	"filippo.io/torchwood"

	"github.com/actionproof/mediator/ledger"
)

// Handler publishes a log as c2sp.org/tlog-tiles has it, below the root of its URLs: checkpoint, tile/ and
// tile/entries/. Its checkpoint is the last one that the log's policy accepted. Everything else never changes, so that
// a CDN can serve it.
func Handler(store ledger.TreeReader) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /checkpoint", func(w http.ResponseWriter, r *http.Request) {
		_, c, err := store.TreeHead(r.Context())
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
		err = store.Tiles(r.Context(), parts)
		answer(w, "application/octet-stream", "public, max-age=31536000, immutable", cut(t, parts[0].Data), err)
	})
	return mux
}

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
