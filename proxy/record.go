package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/session"
)

const (
	flowPost     = "post"     // a post, with its chain of evidence
	flowEgress   = "egress"   // a read, or a write that is not a post
	flowConnect  = "connect"  // a refused tunnel
	flowInternal = "internal" // a call to the mediator itself
)

// Flows are all flows, for the checks of queries.
var Flows = [...]string{flowPost, flowEgress, flowConnect, flowInternal}

// refuse records why a call ends here. Only the log gets errors without a code, which may contain anything.
func (p *Pipeline) refuse(c *call, err error) {
	if c.answerable() && problem.DetailsOf(err).Code == "internal" {
		p.flooded.Error("call failed", zap.String("post", c.record.ID), zap.Error(err))
	}
	c.refused(err)
}

// finish stores and logs the call's one record, even if the agent has left. Calls beyond the quota of
// [load.State.Record] are only counted. It logs its own error.
func (p *Pipeline) finish(ctx context.Context, c *call) error {
	_, err := p.settle(ctx, c, false)
	return err
}

// settle finishes a call and reports whether its outcome is durable. wait is set if something depends on that.
func (p *Pipeline) settle(ctx context.Context, c *call, wait bool) (durable bool, err error) {
	if c.finished() {
		return true, nil
	}
	defer p.o.Record.Release(c.record.ID)
	c.conclude()
	p.identify(ctx, c)
	recorded := c.unfit() || c.mustRecord() || p.load.Record(c.session)
	if !recorded {
		c.record.ID = ""
	}
	c.remember()
	p.o.Metrics.observe(c.record, c.spans.Exemplar())
	c.spans.End(&c.record)
	if !recorded {
		p.o.Metrics.leftOut.Inc()
		return true, nil
	}
	durable, err = p.store(context.WithoutCancel(ctx), c, wait)
	failpoint.Reach("left")
	level := zap.InfoLevel
	switch {
	case err != nil:
		level = zap.ErrorLevel
	case c.record.Code == problem.CallDenied:
		level = zap.DebugLevel
	}
	if entry := p.o.Log.Check(level, "call"); entry != nil {
		entry.Write(zap.Inline(c), zap.Error(err))
	}
	if err != nil {
		return false, errors.Join(refusal.New("ledger_unavailable", "the record of the call could not be stored"), err)
	}
	return durable, nil
}

// conclude ends the call and its place in the session's receipts.
func (c *call) conclude() {
	c.record.Finished = c.p.o.Now()
	if c.record.State == ledger.StateRefused {
		c.record.Method, c.record.Path = clip(c.record.Method, maxRefusedMethod), clip(c.record.Path, maxRefusedPath)
	}
	var handed time.Time
	if c.record.Code == "" {
		handed = c.p.o.Now()
	}
	c.conversation.end(handed)
	if c.record.Flow == flowEgress && c.stage >= going && c.receipt == nil {
		c.session.Chain.Over()
	}
}

// count counts a call that went out, and whether it was read here. It precedes the receipt, which includes the count.
func (c *call) count(read bool) {
	if !c.wentOut() {
		return
	}
	sent := c.record.BytesOut
	switch {
	case c.streamed != nil:
		sent = c.streamed.Bytes()
	case c.held != nil:
		sent = c.held.Size
	}
	c.session.Chain.Count(sent, read)
}

// mustRecord reports whether something depends on the record. Of more than the challenge that was signed, it must give
// an account.
func (c *call) mustRecord() bool {
	return c.session != nil && (c.intended() || c.stage == unsure || len(c.record.Artifacts) > 1 ||
		c.record.State != ledger.StateRefused && c.record.Flow != flowInternal)
}

// canWait reports whether nothing depends on the record: the call is over and needed no evidence.
func (c *call) canWait() bool {
	return !c.intended() && c.stage != unsure && c.record.State != ledger.StateRefused
}

// store stores the record and reports whether it is durable. The agent waits for the record of a refusal unless the
// ledger is unavailable. An intent that may be durable is closed as failed, so that it does not stay in flight for
// ever.
func (p *Pipeline) store(ctx context.Context, c *call, wait bool) (durable bool, err error) {
	switch {
	case c.canWait():
		return false, p.o.Record.AddLater(c.record)
	case c.intended() && !wait:
		return false, p.o.Record.FinishLater(c.record)
	}
	within, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
	defer cancel()
	switch {
	case c.intended():
		if err = p.o.Record.Finish(within, c.record); err == nil {
			return true, nil
		}
		return false, p.later(c, err, p.o.Record.FinishLater(c.record))
	case c.stage == unsure:
		failed := c.record
		failed.State = ledger.StateFailed
		if err = p.o.Record.Finish(within, failed); err == nil {
			return true, nil
		}
	}
	added := p.o.Record.Add(within, c.record)
	if added == nil {
		return true, nil
	}
	// The ledger is unavailable. The record waits in memory, and whether the intent was stored is not known yet.
	return false, p.later(c, errors.Join(err, added), p.o.Record.AddLater(c.record))
}

// later logs why a record is stored later. It fails if the record was not accepted for later.
func (p *Pipeline) later(c *call, now, later error) error {
	if later != nil {
		return errors.Join(now, later)
	}
	p.flooded.Warn("the record of a call could not be stored at once; it waits in memory",
		zap.String("post", c.record.ID), zap.Error(now))
	return nil
}

// Bounds in bytes on what is kept of a refused call: an agent chooses method and path, and refusals cost it nothing.
// The second line bounds a session's memory of refusals.
const (
	maxRefusedMethod, maxRefusedPath       = 32, 1024
	maxRememberedPath, maxRememberedDetail = 256, 512
)

// remember keeps the reason for the agent to ask later: many clients hide the refusal of a CONNECT, and a failed TLS
// handshake has no answer.
func (c *call) remember() {
	if c.session == nil || c.told.Code == "" || c.told.Code == problem.CallDenied || c.record.Flow == flowInternal {
		return
	}
	c.session.Remember(session.Refusal{
		Time: c.record.Finished, Post: c.record.ID, Method: clip(c.record.Method, maxRefusedMethod),
		Host: c.record.Host,
		Path: clip(c.record.Path, maxRememberedPath), Message: clip(c.record.Message, maxRememberedPath),
		Code:   c.told.Code,
		Detail: clip(c.told.Detail, maxRememberedDetail), Remedy: c.told.Remedy, Rule: c.told.Rule,
		State: string(c.record.State),
	})
}

// clip cuts the ASCII text s and marks the cut.
func clip(s string, to int) string {
	if len(s) <= to {
		return s
	}
	return s[:to] + "…"
}

func (c *call) MarshalLogObject(line zapcore.ObjectEncoder) error {
	r := &c.record
	for _, f := range [...]struct{ key, value string }{
		{"post", r.ID}, {"flow", r.Flow}, {"state", string(r.State)}, {"code", r.Code}, {"session", r.Session},
		{"event", r.Event}, {"rule", r.Rule}, {"method", r.Method}, {"host", r.Host}, {"path", r.Path},
		{"message", r.Message},
	} {
		line.AddString(f.key, f.value)
	}
	line.AddInt("status", r.Status)
	line.AddDuration("took", r.Finished.Sub(r.Started))
	return nil
}
