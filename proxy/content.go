package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/forward"
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
	if err := p.readDocument(t); err != nil {
		return err
	}
	t.binding = evidence.Binding{Subject: t.action.Subject, Action: t.action.Action, Resource: resource, ContentHash: t.content.Hash}
	if err := t.binding.Check(); err != nil { // before the record has it: the resource is the agent's, up to the size of a header
		return err
	}
	t.record.Subject, t.record.Action, t.record.Resource, t.record.ContentHash = t.binding.Subject, t.binding.Action, resource, t.content.Hash
	t.record.BytesOut = t.content.Size
	t.session.Note("post " + t.target.Authority() + " " + resource + " " + t.content.Hash)
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
	if t.content.Size > t.action.MaxBody {
		return body.TooLarge(t.action.MaxBody)
	}
	if t.action.Content == ContentJSON {
		t.content.Hash, err = p.bodies.HashJSON(ctx, t.content.Text)
	}
	return err
}

// readBody reads the body of a call, which has up to limit bytes, before anything is sent.
func (p *Pipeline) readBody(c *call, limit int64, kind string) (*body.Body, error) {
	// A context does not end a read; a deadline does. Where a connection has none, the server's own limits hold.
	reading := http.NewResponseController(c.w)
	_ = reading.SetReadDeadline(p.o.Now().Add(p.o.Timeouts.Step))
	read, err := p.bodies.Read(c.w, c.r, limit, kind == ContentJSON)
	_ = reading.SetReadDeadline(time.Time{})
	return read, err
}

// closeAfter ends the agent's connection with the answer: nobody knows how much of the body is still to come.
func (c *call) closeAfter() {
	if c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}

// checkHeader refuses a header that the action does not take. What a post does can rest on one, such as in whose name it is made.
func (a *Action) checkHeader(h http.Header) error {
	if a.Headers == nil {
		return nil
	}
	for name := range h {
		if a.MCP != nil && strings.HasPrefix(name, "Mcp-") { // those say what the message says
			continue
		}
		if !forward.IsUsual(name) && !slices.Contains(a.Headers, name) && !a.Credential.In(name) {
			return refusal.New("header_refused", "the action %s takes no header %.100s", a.Name, name)
		}
	}
	return nil
}
