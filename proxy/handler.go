package proxy

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Handler passes each request to the current pipeline. A call stays with its pipeline, so it sees one configuration;
// the tunnel's next request may see another. Its methods implement [intercept.Options]. It is safe for concurrent use.
type Handler struct{ inForce atomic.Pointer[Pipeline] }

// NewHandler begins with p.
func NewHandler(p *Pipeline) *Handler {
	c := &Handler{}
	c.Set(p)
	return c
}

// Set replaces the pipeline for requests that start afterwards.
func (c *Handler) Set(p *Pipeline) { c.inForce.Store(p) }

// Pipeline returns the current one.
func (c *Handler) Pipeline() *Pipeline { return c.inForce.Load() }

func (c *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.Pipeline().ServeHTTP(w, r) }

func (c *Handler) Connect(r *http.Request, t upstream.Target) (context.Context, error) {
	return c.Pipeline().Connect(r, t)
}

// Party counts a tunnel for its session's party, or else for all unknown callers.
func (c *Handler) Party(r intercept.Route) string {
	s, _ := c.Pipeline().o.Sessions.Of(r) // nil for an error
	return cmp.Or(r.Agent, s.Party())
}

func (c *Handler) Refused(ctx context.Context, err error) {
	c.Pipeline().Refused(ctx, err)
}

func (c *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	c.Pipeline().Refuse(w, r, err)
}
