package proxy

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Handler gives each request to the current pipeline. A call stays with its pipeline to the end, so it sees one
// configuration only; the next request of the same tunnel may see another. It is safe for concurrent use.
type Handler struct{ inForce atomic.Pointer[Pipeline] }

func NewHandler(p *Pipeline) *Handler {
	c := &Handler{}
	c.Set(p)
	return c
}

// Set makes p the current pipeline.
func (c *Handler) Set(p *Pipeline) { c.inForce.Store(p) }

// Pipeline returns the current pipeline.
func (c *Handler) Pipeline() *Pipeline { return c.inForce.Load() }

// ServeHTTP implements [intercept.Options].Handler.
func (c *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.Pipeline().ServeHTTP(w, r) }

// Connect implements [intercept.Options].Connect.
func (c *Handler) Connect(r *http.Request, t upstream.Target) (context.Context, error) {
	return c.Pipeline().Connect(r, t)
}

// Party implements [intercept.Options].Party: a tunnel counts for its session, or for all callers without one.
func (c *Handler) Party(r intercept.Route) string {
	if s, err := c.Pipeline().o.Sessions.Of(r); err == nil {
		return s.ID
	}
	return ""
}

// Refused implements [intercept.Options].Refused.
func (c *Handler) Refused(ctx context.Context, t upstream.Target, err error) {
	c.Pipeline().Refused(ctx, t, err)
}

// Refuse implements [intercept.Options].Refuse.
func (c *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	c.Pipeline().Refuse(w, r, err)
}
