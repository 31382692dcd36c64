package share

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

// Bodies lets the bodies of each caller's requests be read a few at once. It is safe for concurrent use.
type Bodies struct {
	mu    sync.Mutex // guards turns
	turns *lru.Cache[string, chan struct{}]
}

// NewBodies returns one that knows no caller yet.
func NewBodies() *Bodies { return &Bodies{turns: lru.New[string, chan struct{}](maxCallers)} }

// Of returns the body of a caller's request, which waits for its turn. Call [Body.End] when the request ends.
func (b *Bodies) Of(caller string, r *http.Request) *Body {
	b.mu.Lock()
	defer b.mu.Unlock()
	turns, known := b.turns.Get(caller)
	if !known {
		turns = make(chan struct{}, maxBodies)
		b.turns.Put(caller, turns)
	}
	return &Body{ReadCloser: r.Body, ctx: r.Context(), turns: turns}
}

// Body is the body of one request.
type Body struct {
	io.ReadCloser
	ctx         context.Context //nolint:containedctx // of the request
	turns       chan struct{}
	begun, over bool
}

func (b *Body) Read(p []byte) (int, error) {
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
		b.End()
	}
	return n, err
}

func (b *Body) Close() error {
	b.End()
	return b.ReadCloser.Close()
}

// End gives the turn back.
func (b *Body) End() {
	if b.begun && !b.over {
		b.over = true
		<-b.turns
	}
}
