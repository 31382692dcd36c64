package proxy

import (
	"errors"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// stage is how far a call has come. With the record's state it gives an error its meaning. Only this file, and the
// steps named here, change either.
type stage uint8

const (
	// arrived: nothing was sent. An error is a refusal.
	arrived stage = iota
	// unsure: nothing was sent, but the post's intent may be durable.
	unsure
	// hungUp: the call is refused, and its connection closed without an answer.
	hungUp
	// going: the call counts as sent, and a post's intent is durable. An error is an outcome.
	going
	// answered: an answer has begun, so no problem document can follow.
	answered
	// kept: the record waits for a resumed answer. The handler no longer owns the call.
	kept
)

func (c *call) answerable() bool { return c.stage < answered && c.stage != hungUp }

// intended reports whether the call is a post with a durable intent, which always gets an outcome.
func (c *call) intended() bool { return c.stage >= going && c.record.Flow == flowPost }

// wentOut reports whether a finished call was sent, or may have been.
func (c *call) wentOut() bool {
	return c.session != nil && c.record.Flow != flowInternal &&
		c.record.State != ledger.StateRefused && c.record.State != ledger.StateFailed
}

func (c *call) finished() bool { return !c.record.Finished.IsZero() }

// goes marks the call as sent: in [posting.consume] and [Pipeline.egress].
func (c *call) goes() { c.stage, c.record.State = going, ledger.StateForwarding }

func (c *call) forwarded(status int) { c.record.State, c.record.Status = ledger.StateForwarded, status }

// answers marks that the answer to the agent begins.
func (c *call) answers() { c.stage = answered }

// unanswered sets the state of a call that ended in err instead of an answer.
func (c *call) unanswered(err error) {
	switch {
	case c.connections.got.Load():
		c.record.State = ledger.StateIndeterminate // part may have been sent
	case !c.intended() && errors.Is(err, refusal.New("egress_address_denied", "")):
		c.record.State = ledger.StateRefused // refused before dialling
	default:
		c.record.State = ledger.StateFailed // no connection, so nothing was sent
	}
}

// indeterminate records that the call may have had its effect.
func (c *call) indeterminate(why error) {
	c.record.State = ledger.StateIndeterminate
	c.refused(why)
}

// resumed clears the failure of a broken answer once its rest has arrived.
func (c *call) resumed() {
	c.record.State, c.record.Code, c.record.Step, c.record.Reason = ledger.StateForwarded, "", "", ""
}

// refused records why the call failed. Only the first reason counts.
func (c *call) refused(err error) {
	if c.record.Code != "" {
		return
	}
	c.told = c.forAgent(err)
	d := problem.DetailsOf(err)
	c.record.Code, c.record.Step, c.record.Reason = d.Code, d.Step, d.Detail
}
