package proxy

import (
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/rules"
)

// readContent is step 3: it reads the body once; bounds, normalises and hashes it; and makes the binding.
func (t *posting) readContent(ctx context.Context) error {
	if err := t.action.CheckHeader(t.r.Header); err != nil {
		return err
	}
	resource := t.r.Method + " " + t.r.URL.EscapedPath()
	if t.r.URL.RawQuery != "" || t.r.URL.ForceQuery {
		if !t.action.AllowQuery {
			return refusal.New("override_refused", "the action %s does not allow a query", t.action.Name)
		}
		resource += "?" + t.r.URL.RawQuery
	}
	if does := t.does.Does(); does != "" {
		resource += " " + does
	}
	if err := t.readBody(ctx); err != nil {
		return err
	}
	if err := t.conversation.content(t.content); err != nil {
		return err
	}
	a, r, hash := t.action, &t.record, t.content.Hash
	t.binding = evidence.Binding{Subject: a.Subject, Action: a.Action, Resource: resource, ContentHash: hash}
	if err := t.binding.Check(); err != nil { // before the record gets the resource, which may be as long as a header
		return err
	}
	r.Subject, r.Action, r.Resource, r.ContentHash = a.Subject, a.Action, resource, hash
	t.record.BytesOut = t.content.Size
	t.session.Note("post " + t.target.Authority() + " " + resource + " " + t.content.Hash)
	return nil
}

func (t *posting) readBody(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			t.closeAfter()
		}
	}()
	if t.content = t.held; t.content == nil {
		if t.content, err = t.call.readBody(t.action.MaxBody, t.action.Content); err != nil {
			return err
		}
	}
	if t.content.Size > t.action.MaxBody {
		return body.TooLarge(t.action.MaxBody)
	}
	if t.action.Content == rules.ContentJSON {
		t.content.Hash, err = t.p.bodies.HashJSON(ctx, t.session.Party(), t.content.Text)
	}
	return err
}
