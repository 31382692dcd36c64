package proxy

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/actionproof/mediator/proxy/upstream"
)

// Handler holds the pipeline of a process whose configuration can change while it runs: it gives each request to the pipeline in force, which
// keeps it to its end. So a call sees one configuration and never parts of two, and a tunnel, which is decided by one pipeline, brings each of
// its requests to the one in force by then. It is safe for concurrent use.
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

// Refused is for [Options].Refused.
func (c *Handler) Refused(ctx context.Context, t upstream.Target, err error) {
	c.Pipeline().Refused(ctx, t, err)
}

// Refuse is for [Options].Refuse.
func (c *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	c.Pipeline().Refuse(w, r, err)
}
