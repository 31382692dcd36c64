package receipts

import (
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

// ModelRecord returns the figures and names for the record of a call to a model.
func ModelRecord(in inference.Interaction) *ledger.ModelCall {
	count := func(f interaction.Figure) *ledger.Figure {
		if f.State == "" {
			return nil
		}
		return &ledger.Figure{N: f.Value, State: f.State}
	}
	since := func(at time.Time) *ledger.Figure {
		if at.IsZero() {
			return nil
		}
		micros := max(0, at.Sub(in.Received)).Round(time.Microsecond).Microseconds()
		return count(interaction.Observed(micros))
	}
	var calls interaction.Figure
	if in.SaidAll {
		calls = interaction.Observed(0)
		for _, b := range in.Said {
			if b.Kind == inference.KindCall {
				calls.Value++
			}
		}
	}
	return &ledger.ModelCall{
		API: string(in.Request.Dialect), Model: in.Request.Model, AnsweredBy: in.Model,
		Outcome: string(in.Outcome), Unread: in.Reason, Error: in.Error,
		Streamed: in.Streamed, Hosted: slices.Clone(in.Request.Hosted), Unknown: slices.Clone(in.Request.Unknown),
		Input: count(in.Input), Output: count(in.Output), Cached: count(in.Cached), Reasoning: count(in.Reasoning),
		Calls: count(calls), HostedCalls: count(in.HostedCalls),
		Sent: since(in.Sent), Head: since(in.Head), First: since(in.First), End: since(in.End),
	}
}
