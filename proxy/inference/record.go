package inference

import (
	"slices"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// Record returns what the record of a call keeps: figures and names.
func (in Interaction) Record() *ledger.ModelCall {
	count := func(c Count) *ledger.Figure {
		if c.State == NotMeasured {
			return nil
		}
		return &ledger.Figure{N: c.N, State: string(c.State)}
	}
	since := func(m Moment) *ledger.Figure {
		if m.State == NotMeasured {
			return nil
		}
		return &ledger.Figure{N: max(0, m.At.Sub(in.Received.At)).Round(time.Microsecond).Microseconds(),
			State: string(m.State)}
	}
	calls := Count{}
	if in.SaidAll {
		calls.State = Observed
	}
	for _, b := range in.Said {
		if b.Kind == KindCall {
			calls.N++
		}
	}
	return &ledger.ModelCall{
		API: string(in.Request.Dialect), Model: in.Request.Model, AnsweredBy: in.Model, Outcome: string(in.Outcome),
		Unread: in.Reason, Error: in.Error,
		Streamed: in.Streamed, Hosted: slices.Clone(in.Request.Hosted),
		Input: count(in.Input), Output: count(in.Output), Cached: count(in.Cached), Reasoning: count(in.Reasoning),
		Calls: count(calls), HostedCalls: count(in.HostedCalls),
		Sent: since(in.Sent), Head: since(in.Head), First: since(in.First), End: since(in.End),
	}
}
