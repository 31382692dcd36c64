package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/ledger"
)

// newsPeriod is the least time between two pieces of news for a page, which then asks for itself again.
const newsPeriod = 2 * time.Second

// maxPages bounds the open pages that get news. No reader has more than it leaves free: see [share.Pool].
const maxPages = 32

// live tells open pages when calls have ended.
type live struct {
	// ended waits until a call ends. It calls begun once it would hear of one.
	ended func(ctx context.Context, begun func() error) error
	pages share.Pool
}

// endedAt returns how to wait for the end of a call of the sidecar at an endpoint. It does not go on listening, because
// sending every call would cost the sidecar CPU.
func endedAt(endpoint string) func(context.Context, func() error) error {
	return func(ctx context.Context, begun func() error) error {
		ended := errors.New("a call has ended")
		err := admin.Ended(ctx, endpoint, ledger.Query{}, begun, func(admin.EndedCall) error { return ended })
		if errors.Is(err, ended) {
			return nil
		}
		return err
	}
}

// serve answers with server-sent events: one named changed after calls have ended. When the sidecar ends, so does the
// answer, and the browser asks again.
func (l *live) serve(w http.ResponseWriter, r *http.Request, reader string) {
	if !l.pages.Take(reader, 1, maxPages) {
		w.WriteHeader(http.StatusNoContent) // a browser does not ask again
		return
	}
	defer l.pages.Give(reader, 1)
	ctx, cancel := endpoint.UntilEnding(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	write := func(text string) error {
		_ = to.SetWriteDeadline(time.Now().Add(answerTime))
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return to.Flush()
	}
	changed := func() error {
		if err := write("event: changed\ndata:\n\n"); err != nil {
			return err
		}
		return every.Sleep(ctx, newsPeriod)
	}
	err, begun := write("retry: 3000\n\n"), func() error { return nil }
	for err == nil {
		if err = l.ended(ctx, begun); err == nil {
			err = changed()
		}
		begun = changed // calls may have ended meanwhile
	}
}
