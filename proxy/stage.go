package proxy

import (
	"errors"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// stage is how far a call has come. With the state of the record it says what an error means. Only this file changes
// either, and the steps that it names.
type stage uint8

const (
	// arrived: nothing was sent. An error is a refusal.
	arrived stage = iota
	// unsure: nobody knows whether the intent of the post is durable. Nothing was sent.
	unsure
	// hungUp: the call is refused, and its connection is closed in place of an answer.
	hungUp
	// going: the call counts as sent, and the intent of a post is durable. An error is an outcome.
	going
	// answered: an answer has begun, so that no problem document can follow.
	answered
	// kept: the record waits for a resumed answer. The call is no longer its handler's.
	kept
)

// answerable reports whether the agent can still be told of an error.
func (c *call) answerable() bool { return c.stage < answered && c.stage != hungUp }

// intended reports whether the call is a post whose intent is durable: from there on it has an outcome.
func (c *call) intended() bool { return c.stage >= going && c.record.Flow == flowPost }

// wentOut reports whether a call that is over was sent, or may have been.
func (c *call) wentOut() bool {
	return c.session != nil && c.record.Flow != flowInternal &&
		c.record.State != ledger.StateRefused && c.record.State != ledger.StateFailed
}

// finished reports whether the record is stored.
func (c *call) finished() bool { return !c.record.Finished.IsZero() }

// goes says that the call counts as sent from now on: in [posting.consume], and where [Pipeline.egress] sends it.
func (c *call) goes() { c.stage, c.record.State = going, ledger.StateForwarding }

// forwarded says that the upstream, or the mediator itself, has answered.
func (c *call) forwarded(status int) { c.record.State, c.record.Status = ledger.StateForwarded, status }

// answers says that the answer to the agent begins.
func (c *call) answers() { c.stage = answered }

// unanswered says that the call got no answer but err.
func (c *call) unanswered(err error) {
	switch {
	case c.connections.got.Load():
		c.record.State = ledger.StateIndeterminate // something may have been sent; nobody on this side knows
	case !c.intended() && errors.Is(err, refusal.New("egress_address_denied", "")):
		c.record.State = ledger.StateRefused // by us, before anything was dialled
	default:
		c.record.State = ledger.StateFailed // without a connection nothing can have been sent
	}
}

// indeterminate says that nobody knows whether the call has had its effect.
func (c *call) indeterminate(why error) {
	c.record.State = ledger.StateIndeterminate
	c.refused(why)
}

// resumed takes back that the answer broke off: the rest of it has come.
func (c *call) resumed() {
	c.record.State, c.record.Code, c.record.Step, c.record.Reason = ledger.StateForwarded, "", "", ""
}

// refused notes why the call ends here. Only the first reason counts.
func (c *call) refused(err error) {
	if c.record.Code != "" {
		return
	}
	c.told = problem.ForAgent(err, c.record.ID)
	d := problem.DetailsOf(err)
	c.record.Code, c.record.Step, c.record.Reason = d.Code, d.Step, d.Detail
}
