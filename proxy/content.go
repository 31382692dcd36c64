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
	if does := t.message.Does(); does != "" {
		resource += " " + does
	}
	if err := p.readContent(ctx, t); err != nil {
		return err
	}
	t.binding = evidence.Binding{Subject: t.action.Subject, Action: t.action.Action, Resource: resource, ContentHash: t.content.hash}
	if err := t.binding.Check(); err != nil { // before the record has it: the resource is the agent's, up to the size of a header
		return err
	}
	t.record.Subject, t.record.Action, t.record.Resource, t.record.ContentHash = t.binding.Subject, t.binding.Action, resource, t.content.hash
	t.record.BytesOut = t.content.size
	t.session.Note("post " + t.target.Authority() + " " + resource + " " + t.content.hash)
	return nil
}

// readContent reads, bounds and hashes the body of a post. That of a message has been read before, to find its rule.
func (p *Pipeline) readContent(ctx context.Context, t *posting) (err error) {
	defer func() {
		if err != nil {
			t.closeAfter()
		}
	}()
	if t.content = t.held; t.content == nil {
		if t.content, err = p.readBody(t.call, t.action.MaxBody, t.action.Content); err != nil {
			return err
		}
	}
	if t.content.size > t.action.MaxBody {
		return tooLarge(t.action.MaxBody)
	}
	if t.action.Content == ContentJSON {
		t.content.hash, err = p.bodies.hashJSON(ctx, t.content.mem)
	}
	return err
}

// readBody reads the body of a call, which has up to limit bytes, before anything is sent.
func (p *Pipeline) readBody(c *call, limit int64, kind string) (*content, error) {
	// A context does not end a read; a deadline does. Where a connection has none, the server's own limits hold.
	reading := http.NewResponseController(c.w)
	_ = reading.SetReadDeadline(p.o.Now().Add(p.o.Timeouts.Step))
	body, err := p.bodies.read(c.w, c.r, limit, kind)
	_ = reading.SetReadDeadline(time.Time{})
	return body, err
}

// closeAfter ends the agent's connection with the answer: nobody knows how much of the body is still to come.
func (c *call) closeAfter() {
	if c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}

// read reads and bounds the body of a request.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, limit int64, kind string) (*content, error) {
	if len(r.Trailer) > 0 {
		return nil, refusal.New("content_trailers", "the request announces trailers, which the content hash would not cover")
	}
	inMemory := int64(spoolAt)
	if kind == ContentJSON {
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
