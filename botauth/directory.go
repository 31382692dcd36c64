package botauth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/httpsig"
)

// Path is where a directory is.
const Path = "/.well-known/http-message-signatures-directory"

const mediaType = "application/http-message-signatures-directory+json"

// Directory is the keys that verify signatures now, and how long verifiers may keep it.
type Directory struct {
	Keys   []ed25519.PublicKey
	MaxAge time.Duration
}

// Handler publishes a directory at [Path], over HTTP: a proxy before it terminates TLS.
func Handler(now func() Directory) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		d := now()
		raw, err := json.Marshal(d.set())
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", mediaType)
		h.Set("Cache-Control", fmt.Sprintf("max-age=%d", int(d.MaxAge.Seconds())))
		h.Set("Etag", fmt.Sprintf(`"%x"`, sha256.Sum256(raw)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	})
	return mux
}

func (d Directory) set() jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, key := range d.Keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: httpsig.KeyID(key), Use: "sig"})
	}
	return set
}
