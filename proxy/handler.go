package proxy

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Handler gives each request to the current pipeline, which keeps it to its end: a call sees one configuration and
// never parts of two. Each request in a tunnel goes to the pipeline that is current by then. It is safe for concurrent
// use.
type Handler struct{ inForce atomic.Pointer[Pipeline] }

// NewHandler makes a handler with its first pipeline.
func NewHandler(p *Pipeline) *Handler {
	c := &Handler{}
	c.Set(p)
	return c
}

// Set puts p in force, for every request that comes from now on.
func (c *Handler) Set(p *Pipeline) { c.inForce.Store(p) }

// Pipeline returns the one in force.
func (c *Handler) Pipeline() *Pipeline { return c.inForce.Load() }

// ServeHTTP is for [Options].Handler.
func (c *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.Pipeline().ServeHTTP(w, r) }

// Connect is for [Options].Connect.
func (c *Handler) Connect(r *http.Request, t upstream.Target) (context.Context, error) {
	return c.Pipeline().Connect(r, t)
}

// Party is for [Options].Party: a tunnel counts for its session, or for all callers without a session.
func (c *Handler) Party(r intercept.Route) string {
	if s, err := c.Pipeline().o.Sessions.Of(r); err == nil {
		return s.ID
	}
	return ""
}

// Refused is for [Options].Refused.
func (c *Handler) Refused(ctx context.Context, t upstream.Target, err error) {
	c.Pipeline().Refused(ctx, t, err)
}

// Refuse is for [Options].Refuse.
func (c *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	c.Pipeline().Refuse(w, r, err)
}
