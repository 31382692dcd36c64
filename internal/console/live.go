package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/process/endpoint"
)

// newsPeriod is the least time between two pieces of news for a page, which then asks for itself again.
const newsPeriod = 2 * time.Second

// maxPages bounds the open pages that get news.
const maxPages = 32

// errNews ends the wait for a call.
var errNews = errors.New("a call has ended")

// live tells open pages when calls have ended. It follows the sidecar's calls only while a page is open.
type live struct {
	at string // the sidecar's endpoint

	mu    sync.Mutex // guards all below
	pages map[chan struct{}]bool
	stop  context.CancelFunc // ends the following; nil if no page is open
}

// serve answers with server-sent events: one named changed after calls have ended.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	changed, leave := l.join()
	if changed == nil {
		w.WriteHeader(http.StatusNoContent) // a browser does not ask again
		return
	}
	defer leave()
	ctx, cancel := endpoint.UntilEnding(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	text := "retry: 3000\n\n"
	for {
		_ = to.SetWriteDeadline(time.Now().Add(answerTime))
		if _, err := fmt.Fprint(w, text); err != nil || to.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case _, open := <-changed:
			if !open { // the sidecar has ended; the browser comes again
				return
			}
		}
		text = "event: changed\ndata:\n\n"
		select {
		case <-ctx.Done():
			return
		case <-time.After(newsPeriod):
		}
	}
}

// join adds a page. It returns nil if there are too many.
func (l *live) join() (changed chan struct{}, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pages) >= maxPages {
		return nil, nil
	}
	if l.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l.pages, l.stop = make(map[chan struct{}]bool), cancel
		go l.follow(ctx, l.pages)
	}
	pages := l.pages
	changed = make(chan struct{}, 1)
	pages[changed] = true
	return changed, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(pages, changed)
		if len(pages) == 0 {
			l.end(pages)
		}
	}
}

// follow tells pages of ended calls until ctx ends, or the sidecar does. Then these pages get nothing more.
func (l *live) follow(ctx context.Context, pages map[chan struct{}]bool) {
	tell := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for changed := range pages {
			select {
			case changed <- struct{}{}:
			default: // it has news that it has not taken yet
			}
		}
	}
	// It follows only until the next call ends: sending every call would cost the sidecar CPU.
	begun, next := func() error { return nil }, func(admin.EndedCall) error { return errNews }
	for errors.Is(admin.Ended(ctx, l.at, admin.Selection{}, begun, next), errNews) {
		tell()
		select {
		case <-time.After(newsPeriod):
		case <-ctx.Done():
		}
		begun = func() error { tell(); return nil } // calls may have ended meanwhile
	} // each page says itself whether the sidecar answers
	l.mu.Lock()
	defer l.mu.Unlock()
	for changed := range pages {
		close(changed)
		delete(pages, changed)
	}
	l.end(pages)
}

// end ends the following for these pages. The caller holds l.mu.
func (l *live) end(pages map[chan struct{}]bool) {
	if l.stop != nil && len(l.pages) == 0 && len(pages) == 0 {
		l.stop()
		l.stop = nil
	}
}
