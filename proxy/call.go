package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
)

// call is one request on its way, with the record that it will leave.
type call struct {
	p       *Pipeline
	w       http.ResponseWriter // nil for a CONNECT, and for what ended before there was a request
	r       *http.Request       // nil for what ended before there was a request
	target  upstream.Target
	session *session.Session // nil until step 1
	record  ledger.Record
	stage   stage // see stage.go
	// conversation is the call in the protocol of its endpoint; plain until step 2 has found another.
	conversation conversation
	slot         slot            // what the call takes of the calls in flight
	permit       upstream.Permit // the call's leave to reach its host
	// held is the body of a call whose message was read to find its rule; nil for any other.
	held *body.Body
	// streamed is the request's own body where that is what is sent; nil for a post, whose body has been read before.
	streamed *body.Streamed
	// does is what a post does by its message; nil if its rule is not about messages.
	does *policy.Message
	// receipt is the interaction receipt that is made of the call; nil for a call without one.
	receipt     *receipts.Call
	told        problem.Details // what the agent may read of why the call failed
	connections connections
	last        time.Time // when the last step ended
}

// connections counts the connections of a call. The transport does so, in a goroutine of its own.
type connections struct {
	got  atomic.Bool  // the call has one
	made atomic.Int32 // for it
}

func (p *Pipeline) newCall(w http.ResponseWriter, r *http.Request) *call {
	now := p.o.Now()
	c := &call{p: p, w: w, r: r, last: now}
	c.conversation = plain{c}
	c.record = ledger.Record{
		ID: "post_" + evidence.NewOrderedID(now), Flow: flowEgress, State: ledger.StateRefused, Started: now,
		Manifest: p.o.Strict.ManifestHash, Steps: make([]ledger.Step, 0, 4),
	}
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

// of notes whose call it is.
func (c *call) of(s *session.Session) {
	c.session = s
	c.record.Session, c.record.Event = s.ID, s.Event.ID
}

// step ends a step and notes how long it took.
func (c *call) step(name string) {
	now := c.p.o.Now()
	c.record.Steps = append(c.record.Steps, ledger.Step{Name: name, Micros: now.Sub(c.last).Microseconds()})
	c.last = now
}

// check notes one verification with its result and returns err as it came.
func (c *call) check(name string, err error) error {
	err = evidence.Stale(err)
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

// readBody reads the body of a call, which has up to limit bytes, before anything is sent.
func (c *call) readBody(limit int64, kind string) (*body.Body, error) {
	// A context does not end a read; a deadline does. Where a connection has none, the server's own limits hold.
	reading := http.NewResponseController(c.w)
	_ = reading.SetReadDeadline(c.p.o.Now().Add(c.p.o.Timeouts.Step))
	read, err := c.p.bodies.Read(c.w, c.r, c.session.ID, limit, kind == ContentJSON)
	_ = reading.SetReadDeadline(time.Time{})
	return read, err
}

// text returns the text that is held of the call.
func (c *call) text() []byte {
	if c.held == nil {
		return nil
	}
	return c.held.Text
}

// release frees the body that was held.
func (c *call) release() {
	if c.held != nil {
		c.held.Close()
	}
}

// sentBytes returns the size of the body of a call.
func (c *call) sentBytes() int64 {
	switch {
	case c.streamed != nil:
		return c.streamed.Bytes()
	case c.held != nil:
		return c.held.Size
	}
	return c.record.BytesOut
}

// closeAfter ends the agent's connection with the answer: nobody knows how much of the body is still to come.
func (c *call) closeAfter() {
	if c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}

// What a client may still send of a body that was refused unread, in bytes and in time.
const (
	maxUnread     = 64 << 20
	unreadTimeout = 5 * time.Second
)

// answerRefusal answers with a refusal at once, and then takes what the client still sends of its body, within bounds:
// many clients read the answer only when they have sent everything, and lose it if the connection is closed before.
func (c *call) answerRefusal(err error) {
	d := problem.ForAgent(err, c.record.ID)
	var first *challengeRequired
	if errors.As(err, &first) {
		d.Challenge = first.document
	}
	answer := http.NewResponseController(c.w)
	if c.slot.call {
		_ = answer.EnableFullDuplex() // or net/http would read of the body before it answers; HTTP/2 needs no such leave
	}
	c.writeProblem(d, err)
	if !c.slot.call || c.held != nil || c.r.Body == http.NoBody || c.r.Header.Get("Expect") != "" {
		return // who expects to be asked for the body sends none
	}
	_ = answer.Flush()
	_ = answer.SetReadDeadline(c.p.o.Now().Add(unreadTimeout))
	_, _ = io.CopyN(io.Discard, c.r.Body, maxUnread)
}

// writeProblem answers with a refusal, as the clients of the call's endpoint show it.
func (c *call) writeProblem(d problem.Details, err error) {
	c.w.Header().Set(problem.ProxyStatusField, d.ProxyStatus())
	c.conversation.refuse(c.w, d, err)
}
