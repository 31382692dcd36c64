// Package logtest has a witness for tests of the transparency log. test/witness has the one that others run.
package logtest

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/test/check"
)

// Answer answers in place of a witness, and returns true; or it returns false.
type Answer func(w http.ResponseWriter, r *http.Request) bool

// Says answers with a status and a text.
func Says(status int, body string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// Witness is a small witness by c2sp.org/tlog-witness. It cosigns each tree that continues the one it saw last.
type Witness struct {
	Key    string // as a policy names it
	signer *torchwood.CosignatureSigner

	mu     sync.Mutex
	seen   tlog.Tree
	answer Answer
}

// NewWitness makes a witness whose key is made of a seed of one letter.
func NewWitness(t testing.TB, seed string) *Witness {
	t.Helper()
	s, err := torchwood.NewCosignatureSigner("witness.example/w",
		ed25519.NewKeyFromSeed([]byte(strings.Repeat(seed, ed25519.SeedSize))))
	check.Must(t, err)
	return &Witness{signer: s, Key: s.Verifier().String()}
}

// Serve runs the witness until the test ends, and returns its URL.
func (w *Witness) Serve(t testing.TB) (url string) {
	t.Helper()
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	return s.URL + "/prefix/"
}

// Answer lets the witness answer as given; nil lets it cosign again.
func (w *Witness) Answer(a Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = a
}

// ServeHTTP answers one request.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(raw))
	w.mu.Lock()
	answer := w.answer
	w.mu.Unlock()
	if answer != nil && answer(rw, r) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	head, signed, _ := strings.Cut(string(raw), "\n\n")
	lines := strings.Split(head, "\n")
	text, _, _ := strings.Cut(signed, "\n\n")
	c, bad := torchwood.ParseCheckpoint(text + "\n")
	old, unread := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	if err != nil || bad != nil || unread != nil || r.URL.Path != "/prefix/add-checkpoint" {
		http.Error(rw, "", http.StatusBadRequest)
		return
	}
	if old != w.seen.N {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintf(rw, "%d\n", w.seen.N)
		return
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, _ := tlog.ParseHash(line)
		proof = append(proof, h)
	}
	if old > 0 && tlog.CheckTree(proof, c.N, c.Hash, old, w.seen.Hash) != nil {
		http.Error(rw, "", http.StatusUnprocessableEntity)
		return
	}
	w.seen = c.Tree
	_, _ = io.WriteString(rw, w.line(text+"\n"))
}

// line returns the cosignature of a checkpoint.
func (w *Witness) line(text string) string {
	signed, err := note.Sign(&note.Note{Text: text}, w.signer)
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(string(signed), text+"\n")
}
