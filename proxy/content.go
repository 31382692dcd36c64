package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

const (
	// maxJSON bounds a JSON body, which is held in memory to be normalised, in bytes.
	maxJSON = 8 << 20
	// spoolAt is the size from which a raw body goes to an unlinked file instead of memory.
	spoolAt = 1 << 20
	// spoolAnnounced is how much memory is set aside for a body that is only announced.
	spoolAnnounced = 64 << 10
)

// readPost is step 3: the body, once, bounded, normalised and hashed; and the binding.
func (p *Pipeline) readPost(ctx context.Context, t *posting) error {
	if err := t.action.checkHeader(t.r.Header); err != nil {
		return err
	}
	resource := t.r.Method + " " + t.r.URL.EscapedPath()
	if t.r.URL.RawQuery != "" || t.r.URL.ForceQuery {
		if !t.action.AllowQuery {
			return refusal.New("query_refused", "the action %s takes no query", t.action.Name)
		}
		resource += "?" + t.r.URL.RawQuery
	}
	// A context does not end a read; a deadline does. Where a connection has none, the server's own limits hold.
	reading := http.NewResponseController(t.w)
	_ = reading.SetReadDeadline(p.o.Now().Add(p.o.Timeouts.Step))
	body, err := p.bodies.readContent(ctx, t.w, t.r, t.action)
	_ = reading.SetReadDeadline(time.Time{})
	if err != nil {
		if t.r.ProtoMajor == 1 {
			t.w.Header().Set("Connection", "close") // nobody knows how much of the body is still to come
		}
		return err
	}
	t.content = body
	t.binding = evidence.Binding{Subject: t.action.Subject, Action: t.action.Action, Resource: resource, ContentHash: body.hash}
	if err := t.binding.Check(); err != nil { // before the record has it: the resource is the agent's, up to the size of a header
		return err
	}
	t.record.Subject, t.record.Action, t.record.Resource, t.record.ContentHash = t.binding.Subject, t.binding.Action, resource, body.hash
	t.record.BytesOut = body.size
	t.session.Note("post " + t.target.Authority() + " " + resource + " " + body.hash)
	return nil
}

// readContent reads, bounds and hashes the body of a post.
func (b *bodies) readContent(ctx context.Context, w http.ResponseWriter, r *http.Request, a *Action) (*content, error) {
	if len(r.Trailer) > 0 {
		return nil, refusal.New("content_trailers", "the request announces trailers, which the content hash would not cover")
	}
	limit, inMemory := a.MaxBody, int64(spoolAt)
	if a.Content == ContentJSON {
		if err := wire.CheckJSON(r.Header); err != nil {
			return nil, err
		}
		limit, inMemory = min(limit, maxJSON), maxJSON+1 // never in a file
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	body := http.MaxBytesReader(w, r.Body, limit)
	c, err := b.hold(body, r.ContentLength, inMemory)
	if err != nil {
		return nil, readError(err, limit)
	}
	if len(r.Trailer) > 0 { // unannounced trailers appear only once the body has been read
		c.Close()
		return nil, refusal.New("content_trailers", "the request carries trailers, which the content hash would not cover")
	}
	if a.Content == ContentJSON {
		if c.hash, err = b.hashJSON(ctx, c.mem); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func tooLarge(limit int64) error {
	return refusal.New("content_too_large", "the body is larger than the %d bytes that this action allows", limit)
}

func readError(err error, limit int64) error {
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return tooLarge(limit)
	}
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return err
	}
	return refusal.New("content_incomplete", "the body ended early or could not be read")
}
