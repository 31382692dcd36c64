package daemon

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/actionproof/mediator/internal/lru"
)

// maxBodies bounds the requests of one caller whose bodies are read at once: one that is taken over could let
// hundreds come slowly, and each takes memory. maxCallers bounds the callers that are known.
const maxBodies, maxCallers = 64, 4096

type bodies struct {
	mu    sync.Mutex // guards turns
	turns *lru.Cache[string, chan struct{}]
}

func newBodies() *bodies { return &bodies{turns: lru.New[string, chan struct{}](maxCallers)} }

// of returns the body of a caller's request, which waits for its turn. Close it when the request ends.
func (b *bodies) of(caller string, r *http.Request) *body {
	b.mu.Lock()
	defer b.mu.Unlock()
	turns, known := b.turns.Get(caller)
	if !known {
		turns = make(chan struct{}, maxBodies)
		b.turns.Put(caller, turns)
	}
	return &body{ReadCloser: r.Body, ctx: r.Context(), turns: turns}
}

type body struct {
	io.ReadCloser
	ctx         context.Context //nolint:containedctx // of the request
	turns       chan struct{}
	begun, over bool
}

func (b *body) Read(p []byte) (int, error) {
	if !b.begun {
		select {
		case b.turns <- struct{}{}:
			b.begun = true
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func (b *body) end() {
	if b.begun && !b.over {
		b.over = true
		<-b.turns
	}
}
