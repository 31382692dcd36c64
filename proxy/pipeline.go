package proxy

import (
	"cmp"
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/load"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
)

// Pipeline judges calls in one place. Every plain and every intercepted request passes through it and leaves one
// record, up to a quota for calls that cost their caller nothing ([load.State.Record]). A Pipeline never changes: a new
// configuration makes a new one, see [Handler].
type Pipeline struct {
	o       PipelineOptions
	flooded *zap.Logger // for lines that agents and strangers can cause at will
	load    *load.State
	bodies  *body.Store
	lasting *lasting
	// follow runs an answer's reader in its own goroutine. Only tests set it.
	follow func(read func())
}

// NewPipeline names a missing or wrong option in its error.
func NewPipeline(o PipelineOptions) (*Pipeline, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	before := o.After
	o.After = nil // otherwise every pipeline would retain all earlier ones
	p := &Pipeline{o: o, flooded: flood.Logger(o.Log)}
	if before == nil {
		p.load, p.lasting = load.New(o.Load, nil, p.flooded, o.Now), new(lasting)
		p.bodies = body.NewStore(o.Load.Bodies)
	} else {
		p.load, p.lasting = load.New(o.Load, before.load, p.flooded, o.Now), before.lasting
		p.bodies = before.bodies
	}
	return p, nil
}

// JudgingTimeout bounds the time from a post's request to its intent.
func (p *Pipeline) JudgingTimeout() time.Duration { return maxSteps * p.o.Timeouts.Step }

// ServeHTTP answers, refuses or forwards one request, and records it.
func (p *Pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := p.newCall(w, r)
	defer c.slot.Leave()
	defer func() {
		if v := recover(); v != nil {
			p.recovered(c, v)
		}
	}()
	err := p.handle(c)
	cut := err != nil && !c.answerable() // the answer has begun but is incomplete
	if err != nil {
		p.refuse(c, err)
	}
	if !c.conversation.keep() {
		if rec := p.finish(r.Context(), c); rec != nil && err == nil {
			err = rec
		}
	}
	if cut {
		panic(http.ErrAbortHandler) // net/http closes the connection, or resets the stream
	}
	if err != nil && c.answerable() {
		c.answerRefusal(err)
	}
}

// recovered turns a panic into a recorded refusal. A call already sent becomes indeterminate.
func (p *Pipeline) recovered(c *call, v any) {
	if c.stage == kept {
		panic(http.ErrAbortHandler)
	}
	err := errors.New("panic")
	if c.record.State == ledger.StateForwarding {
		c.record.State = ledger.StateIndeterminate
		err = refusal.New("indeterminate", "a fault in the mediator ended the call while it was being sent")
	}
	if v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		p.flooded.Error("panic in a call",
			zap.String("post", c.record.ID), zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
		c.refused(err)
	}
	_ = p.finish(c.r.Context(), c) // finish logs its own error
	if !c.answerable() {
		panic(http.ErrAbortHandler)
	}
	c.conversation.refuse(c.w, c.forAgent(err), err)
}

// handle takes one request through all steps. After an error, the call's stage shows whether anything was sent.
func (p *Pipeline) handle(c *call) error {
	route, ok := intercept.RouteFrom(c.r.Context())
	if !ok {
		return errors.New("proxy: a request reached the pipeline without a route")
	}
	c.route(route.Target)
	p.identify(c.r.Context(), c)
	if err := p.enter(c, cmp.Or(route.Agent, c.session.Party())); err != nil {
		if c.r.ContentLength != 0 {
			c.closeAfter() // do not wait for the body
		}
		return err
	}
	if c.target.Host == InternalHost {
		if goesOn, err := p.own(c, route); !goesOn {
			return err
		}
	} else if err := p.findSession(c, route); err != nil { // 1
		return err
	}
	to, err := p.match(c) // 2
	c.step("match")
	if err != nil {
		return err
	}
	if c.permit, err = p.load.Host(c.target, c.session.Party()); err != nil {
		return err
	}
	defer c.permit.Settle(0, nil) // no effect once settled
	chosen, err := p.choose(c, to)
	defer c.release()
	if err != nil && c.learns() {
		return learnt(to, err)
	} else if err != nil {
		return err
	}
	if err := p.o.Ceiling.CheckCall(c.target, c.r.Method, c.r.URL.EscapedPath(), chosen != learning); err != nil {
		return err
	}
	c.record.Rule, c.purpose = chosen.Name(), chosen.Purpose()
	if err := c.purpose.Check(c.record.Rule, p.o.Now()); err != nil {
		return err
	}
	if chosen.Egress != nil {
		return p.egress(c, chosen.Egress)
	}
	if c.learns() {
		return refusal.New("learning_refused", "the action %s makes a post, which a learning session must not do",
			chosen.Action.Name)
	}
	return p.post(c, chosen.Action)
}

// enter counts a call in flight, and takes a place for its record.
func (p *Pipeline) enter(c *call, party string) (err error) {
	if c.slot, err = p.load.Enter(party); err != nil {
		return err
	}
	if err = p.o.Record.Reserve(c.record, party, p.load.Calls); err != nil {
		c.slot.Leave()
	}
	return err
}

// match begins step 2: it finds the endpoint by origin, method and path, which have only one reading.
func (p *Pipeline) match(c *call) (*rules.Endpoint, error) {
	done, err := c.awaitTurn(len(c.record.Path) + len(c.r.URL.RawQuery)) // a URL has many readings
	if err != nil {
		return nil, err
	}
	defer done()
	to, err := p.o.Rules.Find(c.target, c.r.Method, c.r.URL.EscapedPath())
	if c.learns() {
		to, err = c.learn(to, err)
	}
	if len(c.r.Header["Upgrade"]) > 0 {
		if err := c.upgrade(to); err != nil {
			return to, err
		}
	}
	return to, cmp.Or(forward.CheckHeader(c.r), match.CheckSpelling(c.r.URL), p.o.Rules.CheckOptions(c.target, c.r), err)
}

// findSession is step 1. It counts the call against the session's rates. Each call of a tunnel repeats it, because the
// session may have ended.
func (p *Pipeline) findSession(c *call, route intercept.Route) error {
	defer c.step("session")
	s, err := p.o.Sessions.Of(route)
	if err != nil {
		return err
	}
	c.of(s)
	return p.load.Session(s)
}
