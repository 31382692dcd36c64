package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/problem"
)

// Flows of a record.
const (
	flowPost     = "post"     // a posting call, with its chain of evidence
	flowEgress   = "egress"   // a read, or a write that is no post
	flowConnect  = "connect"  // a tunnel that was refused
	flowInternal = "internal" // a call to the mediator itself
)

// call is one request on its way, with the record that it will leave.
type call struct {
	post  ledger.Post
	begun bool // the intent is durable; from here on there is an outcome, not a refusal
	// unsure is set when nobody knows whether the intent is durable. Nothing was sent.
	unsure bool
	// answered is set once a response has begun, so that no problem document follows it.
	answered bool
	// finished is set once the record is left, so that there is never a second.
	finished bool
	// entered is set while the call counts as in flight.
	entered bool
	// permit is the call's leave to reach its host.
	permit permit

	now  func() time.Time
	last time.Time
}

func (p *Pipeline) newCall(r *http.Request) *call {
	now := p.o.Now()
	c := &call{now: p.o.Now, last: now}
	c.post = ledger.Post{ID: "post_" + evidence.NewOrderedID(now), Flow: flowEgress, State: ledger.StateRefused, Started: now, Manifest: p.o.Strict.ManifestHash, Steps: make([]ledger.Step, 0, 4)}
	if r != nil {
		c.post.Method = r.Method
	}
	return c
}

func (c *call) route(route Route, r *http.Request) {
	c.post.Host = route.Target.Authority()
	c.post.Path = r.URL.EscapedPath() // without the query, which may hold secrets
}

// step ends a step and notes how long it took.
func (c *call) step(name string) {
	now := c.now()
	c.post.Steps = append(c.post.Steps, ledger.Step{Name: name, Micros: now.Sub(c.last).Microseconds()})
	c.last = now
}

// check notes one verification with its result and returns err as it came.
func (c *call) check(name string, err error) error {
	k := ledger.Check{Name: name, OK: err == nil}
	if err != nil {
		d := problem.From(err)
		k.Code, k.Detail = d.Code, d.Detail
	}
	c.post.Checks = append(c.post.Checks, k)
	return err
}

func (c *call) artifact(name, token string) {
	c.post.Artifacts = append(c.post.Artifacts, ledger.Artifact{Name: name, Token: token})
}

// refuse notes why the call ends here. Once the intent is durable the outcome has been set by the forward itself.
func (c *call) refuse(err error) {
	if c.post.Code != "" {
		return
	}
	d := problem.From(err)
	c.post.Code, c.post.Step, c.post.Reason = d.Code, d.Step, d.Detail
}

// finish leaves the one record of a call. It does not depend on the agent still being there.
func (p *Pipeline) finish(ctx context.Context, c *call) error {
	if c.finished {
		return nil
	}
	c.finished = true
	c.post.Finished = c.now()
	if c.post.State == ledger.StateRefused {
		c.post.Method, c.post.Path = clip(c.post.Method, maxRefusedMethod), clip(c.post.Path, maxRefusedPath)
	}
	p.o.Metrics.observe(c.post)
	err := p.leave(context.WithoutCancel(ctx), c)
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
		return errors.Join(evidence.Refuse("ledger_unavailable", "the record of the call could not be kept"), err)
	}
	return nil
}

// maxRefusedMethod and maxRefusedPath bound what the record of a refusal keeps of them, in bytes: they are the agent's, up to the size of a
// header, and refusals cost it nothing.
const maxRefusedMethod, maxRefusedPath = 32, 1024

// clip cuts s, which is ASCII, and says so.
func clip(s string, to int) string {
	if len(s) <= to {
		return s
	}
	return s[:to] + "…"
}

// MarshalLogObject writes what the log says of a call.
func (c *call) MarshalLogObject(line zapcore.ObjectEncoder) error {
	for _, f := range []struct{ key, value string }{
		{"post", c.post.ID}, {"flow", c.post.Flow}, {"state", string(c.post.State)}, {"code", c.post.Code}, {"session", c.post.Session},
		{"event", c.post.Event}, {"rule", c.post.Rule}, {"method", c.post.Method}, {"host", c.post.Host}, {"path", c.post.Path},
	} {
		line.AddString(f.key, f.value)
	}
	line.AddInt("status", c.post.Status)
	line.AddDuration("took", c.post.Finished.Sub(c.post.Started))
	return nil
}

// canWait reports whether nothing rests on the record: the call is over and needed no evidence.
func (c *call) canWait() bool { return !c.begun && !c.unsure && c.post.State != ledger.StateRefused }

// leave leaves the record. An intent that may be durable although nothing was sent must not stay in flight. The agent waits for the record of
// a refusal, unless the ledger is away, and not for that of what is over.
func (p *Pipeline) leave(ctx context.Context, c *call) error {
	switch {
	case c.begun:
		return p.o.Record.FinishLater(ctx, c.post)
	case c.canWait():
		return p.o.Record.RecordLater(ctx, c.post)
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
	defer cancel()
	if c.unsure {
		failed := c.post
		failed.State = ledger.StateFailed
		if err := p.o.Record.Finish(ctx, failed); !errors.Is(err, ledger.ErrState) {
			return orLater(ctx, err, failed, p.o.Record.FinishLater)
		}
	}
	return orLater(ctx, p.o.Record.Record(ctx, c.post), c.post, p.o.Record.RecordLater)
}

// orLater has a record that could not be stored kept until the ledger is back.
func orLater(ctx context.Context, err error, post ledger.Post, later func(context.Context, ledger.Post) error) error {
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the first attempt may have used up its own
	defer cancel()
	return later(ctx, post)
}

// challengeRequired asks the agent to solve a challenge first.
type challengeRequired struct {
	*evidence.Refusal
	document []byte
}

// takeHeader removes and returns a header that belongs to the mediator's own protocol, so that an agent can never
// speak for the mediator.
func takeHeader(h http.Header, name string) []string {
	v := h.Values(name)
	h.Del(name)
	return v
}
