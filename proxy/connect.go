package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/resolver"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Connect judges a CONNECT: it needs a session, and a rule that could allow some call to the target. It records
// refusals; in an allowed tunnel each call is recorded.
func (p *Pipeline) Connect(r *http.Request, t upstream.Target) (context.Context, error) {
	c := p.newCall(nil, r)
	c.target = t
	c.record.Flow, c.record.Host = flowConnect, t.Address()
	err := p.connect(c)
	if err == nil {
		return r.Context(), nil
	}
	p.refuse(c, err)
	if rec := p.finish(r.Context(), c); rec != nil {
		return nil, rec
	}
	return nil, recorded{err, c.record.ID}
}

type recorded struct {
	error
	post string
}

func (r recorded) Unwrap() error { return r.error }

func (p *Pipeline) connect(c *call) error {
	r, t := c.r, c.target
	if t.Host == InternalHost {
		return nil
	}
	route, _ := intercept.RouteFrom(r.Context())
	if err := p.findSession(c, route); err != nil { // each call in the tunnel repeats this
		return err
	}
	if err := p.o.Rules.CheckHost(t); err != nil {
		return err
	}
	if !p.o.Rules.Knows(t) && !c.learns() {
		return refusal.New("egress_denied", "no rule allows any call to %s", t.Authority())
	}
	if route.Original.IsValid() && !resolver.Gave(route.Original.Addr()) && p.o.Destination != nil {
		return p.o.Destination(r.Context(), t, route.Original.Addr())
	}
	return nil
}

// Refused records a refusal by the connection layer before there was a request, such as a TLS handshake for another
// host than the CONNECT's. Connect's refusals already have a record.
func (p *Pipeline) Refused(ctx context.Context, err error) { p.recordOnce(ctx, nil, nil, err) }

// Refuse answers a request that the connection layer refused, and records the refusal unless it has a record.
func (p *Pipeline) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	problem.ForAgent(err, p.recordOnce(r.Context(), w, r, err)).AnswerByProxy(w, r)
}

// recordOnce records a refusal unless it has a record, and returns the record's id. r is nil before there is a request.
func (p *Pipeline) recordOnce(ctx context.Context, w http.ResponseWriter, r *http.Request, err error) (id string) {
	var known recorded
	if errors.As(err, &known) {
		return known.post
	}
	c := p.newCall(w, r)
	if route, ok := intercept.RouteFrom(ctx); ok {
		c.record.Host = route.Target.Address()
	}
	if r != nil {
		c.record.Path = strings.Clone(r.URL.EscapedPath())
	}
	if r == nil || r.Method == http.MethodConnect {
		c.record.Flow = flowConnect
	}
	p.refuse(c, err)
	_ = p.finish(ctx, c) // logs its own error
	return c.record.ID
}
