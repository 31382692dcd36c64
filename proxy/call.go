package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/generate"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Flows of a record.
const (
	flowPost     = "post"     // a posting call, with its chain of evidence
	flowEgress   = "egress"   // a read, or a write that is no post
	flowConnect  = "connect"  // a tunnel that was refused
	flowInternal = "internal" // a call to the mediator itself
)

// Flows are what the flow of a record can be.
var Flows = [...]string{flowPost, flowEgress, flowConnect, flowInternal}

// call is one request on its way, with the record that it will leave.
type call struct {
	w       http.ResponseWriter // nil for a CONNECT, and for what ended before there was a request
	r       *http.Request       // nil for what ended before there was a request
	target  upstream.Target
	session *session.Session // nil until step 1

	record ledger.Record
	begun  bool // the intent is durable; from here on there is an outcome, not a refusal
	// unsure is set when nobody knows whether the intent is durable. Nothing was sent.
	unsure bool
	// answered is set once a response has begun, so that no problem document follows it.
	answered bool
	// finished is set once the record is stored, so that there is never a second.
	finished bool
	// entered is set while the call counts as in flight.
	entered bool
	// webSocket is set while the call counts as a WebSocket that is open, or is about to be.
	webSocket bool
	// durable is set where something rests on the outcome: it is not stored later then. It is unset where the ledger cannot be reached.
	durable bool
	// told is what the agent may read of why the call failed.
	told problem.Details
	// hangUp closes the connection where an answer to a refusal would be.
	hangUp bool
	// permit is the call's leave to reach its host.
	permit upstream.Permit
	// streamed is the request's own body where that is what is sent; nil for a post, whose body has been read before.
	streamed *body.Streamed
	// held is the body of a call whose message was read to find its rule; nil for any other.
	held *body.Body
	// message is what a post does by its message, if its rule is about messages.
	message *policy.Message
	// mcp is what is known of a call to an MCP server; nil for any other.
	mcp *mcp.Call
	// asked is what a call asks of a model, and model observes it; nil for any other.
	asked *inference.Request
	model *inference.Observer
	// generated is the call to a model that an agent has asked the mediator for; nil for any other.
	generated *generate.Call
	// probe is the id of the probe whose prompt that call is; empty for any other.
	probe string
	// receipt is the interaction receipt that is made of the call; nil for a call without one.
	receipt *receipts.Call
	// concluded is set once the session's chain of receipts knows what became of the call.
	concluded bool
	// counted is set once the call is counted in its session.
	counted bool
	// going is set from when a call goes out of which no receipt is made.
	going bool
	// given are the values of what a tool of an MCP server has returned.
	given inference.Values
	// kept is set once the record waits for a resumed answer: from then on the call is no longer its handler's.
	kept bool
	// refusal writes a refusal as the clients of the call's endpoint show it; nil for a problem document.
	refusal func(http.ResponseWriter, problem.Details)
	// connected is set once the call has a connection to its upstream, and made counts those that were made for it. The transport does so, in
	// a goroutine of its own.
	connected atomic.Bool
	made      atomic.Int32

	now  func() time.Time
	last time.Time
}

func (p *Pipeline) newCall(w http.ResponseWriter, r *http.Request) *call {
	now := p.o.Now()
	c := &call{w: w, r: r, now: p.o.Now, last: now}
	c.record = ledger.Record{ID: "post_" + evidence.NewOrderedID(now), Flow: flowEgress, State: ledger.StateRefused, Started: now, Manifest: p.o.Strict.ManifestHash, Steps: make([]ledger.Step, 0, 4)}
	if r != nil && wire.IsMethod(r.Method) { // any other is refused, and stands in no record
		c.record.Method = r.Method
	}
	return c
}

// route notes where the call goes.
func (c *call) route(t upstream.Target) {
	c.target = t
	c.record.Host = t.Address()
	c.record.Path = c.r.URL.EscapedPath() // without the query, which may hold secrets
}

// step ends a step and notes how long it took.
func (c *call) step(name string) {
	now := c.now()
	c.record.Steps = append(c.record.Steps, ledger.Step{Name: name, Micros: now.Sub(c.last).Microseconds()})
	c.last = now
}

// check notes one verification with its result and returns err as it came.
func (c *call) check(name string, err error) error {
	k := ledger.Check{Name: name, OK: err == nil}
	if err != nil {
		d := problem.DetailsOf(err)
		k.Code, k.Detail = d.Code, d.Detail
	}
	c.record.Checks = append(c.record.Checks, k)
	return err
}

func (c *call) artifact(name, token string) {
	c.record.Artifacts = append(c.record.Artifacts, ledger.Artifact{Name: name, Token: token})
}

// refuse notes why the call ends here, for operators. Once the intent is durable the outcome has been set by the forward itself.
func (c *call) refuse(err error) {
	if c.record.Code != "" {
		return
	}
	c.told = problem.ForAgent(err, c.record.ID)
	d := problem.DetailsOf(err)
	c.record.Code, c.record.Step, c.record.Reason = d.Code, d.Step, d.Detail
}

// refuse notes why a call ends here. What an error says that nobody gave a code may be anything, so that only the log has it.
func (p *Pipeline) refuse(c *call, err error) {
	if !c.answered && problem.DetailsOf(err).Code == "internal" {
		p.logOf(c).Error("call failed", zap.String("post", c.record.ID), zap.Error(err))
	}
	c.refuse(err)
}

// finish stores the one record of a call and says it in the log. It does not depend on the agent still being there. Callers whose
// session is not known have a quota: beyond it a call is counted and leaves neither, and has no id.
func (p *Pipeline) finish(ctx context.Context, c *call) error {
	if c.finished {
		return nil
	}
	c.finished = true
	c.record.Finished = c.now()
	if c.record.State == ledger.StateRefused {
		c.record.Method, c.record.Path = clip(c.record.Method, maxRefusedMethod), clip(c.record.Path, maxRefusedPath)
	}
	p.concludeInteraction(c)
	p.identify(ctx, c)
	c.remember()
	p.o.Metrics.observe(c.record)
	if c.session == nil && !p.load.unknown.Pass() {
		p.o.Metrics.leftOut.Inc()
		c.record.ID = ""
		return nil
	}
	err := p.store(context.WithoutCancel(ctx), c)
	failpoint.Reach("left")
	log, level := p.o.Log, zap.InfoLevel
	switch {
	case err != nil:
		level = zap.ErrorLevel
	case c.canWait():
		log = p.o.LogLater
	}
	if entry := log.Check(level, "call"); entry != nil {
		entry.Write(zap.Inline(c), zap.Error(err))
	}
	if err != nil {
		return errors.Join(refusal.New("ledger_unavailable", "the record of the call could not be kept"), err)
	}
	return nil
}

// identify finds the session of a call that ended before step 1, so that its record has a caller.
func (p *Pipeline) identify(ctx context.Context, c *call) {
	if c.session != nil {
		return
	}
	route, ok := intercept.RouteFrom(ctx)
	if !ok && c.r != nil {
		route.ProxyAuthorization, route.Session = c.r.Header.Get("Proxy-Authorization"), intercept.SessionOf(ctx)
	}
	if s, err := p.o.Sessions.Of(route); err == nil {
		c.of(s)
	}
}

// of notes whose call it is.
func (c *call) of(s *session.Session) {
	c.session = s
	c.record.Session, c.record.Event = s.ID, s.Event.ID
}

// maxRefusedMethod and maxRefusedPath bound what the record of a refusal keeps of them, in bytes: they are the agent's, up to the size of a
// header, and refusals cost it nothing.
const maxRefusedMethod, maxRefusedPath = 32, 1024

// clip cuts s, which is ASCII, and marks the cut.
func clip(s string, to int) string {
	if len(s) <= to {
		return s
	}
	return s[:to] + "…"
}

// MarshalLogObject writes what the log says of a call.
func (c *call) MarshalLogObject(line zapcore.ObjectEncoder) error {
	for _, f := range []struct{ key, value string }{
		{"post", c.record.ID}, {"flow", c.record.Flow}, {"state", string(c.record.State)}, {"code", c.record.Code}, {"session", c.record.Session},
		{"event", c.record.Event}, {"rule", c.record.Rule}, {"method", c.record.Method}, {"host", c.record.Host}, {"path", c.record.Path},
	} {
		line.AddString(f.key, f.value)
	}
	line.AddInt("status", c.record.Status)
	line.AddDuration("took", c.record.Finished.Sub(c.record.Started))
	return nil
}

// canWait reports whether nothing rests on the record: the call is over and needed no evidence.
func (c *call) canWait() bool { return !c.begun && !c.unsure && c.record.State != ledger.StateRefused }

// store stores the record. The agent waits for that of a refusal, unless the ledger cannot be reached; all other records may be stored later.
// An intent that may be durable although nothing was sent is closed as failed: it must not stay in flight.
func (p *Pipeline) store(ctx context.Context, c *call) error {
	switch {
	case c.begun && c.durable:
		within, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
		defer cancel()
		if p.o.Record.Finish(within, c.record) == nil {
			return nil
		}
		c.durable = false
		return p.o.Record.FinishLater(ctx, c.record)
	case c.begun:
		return p.o.Record.FinishLater(ctx, c.record)
	case c.canWait():
		return p.o.Record.AddLater(ctx, c.record)
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
	defer cancel()
	if c.unsure {
		failed := c.record
		failed.State = ledger.StateFailed
		if p.o.Record.Finish(ctx, failed) == nil {
			return nil
		}
	}
	if p.o.Record.Add(ctx, c.record) == nil {
		return nil
	}
	// The ledger cannot be reached: the record is kept in memory until it can, and only then is it known whether there is an intent.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the first attempt may have used up its own
	defer cancel()
	return p.o.Record.AddLater(ctx, c.record)
}
