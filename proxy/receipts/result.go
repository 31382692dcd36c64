package receipts

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

// handed is when the agent had the whole answer, or zero.
func (call *Call) EndPost(r ledger.Record, handed time.Time) {
	if call == nil {
		return
	}
	call.end(func() {}, func(call *Call) {
		claims := &call.claims
		claims.Timing.ResponseSent = moment(handed)
		claims.Post.Status = status(r.Status)
		switch r.State {
		case ledger.StateForwarded:
			claims.Outcome = interaction.OutcomeCompleted
		case ledger.StateIndeterminate, ledger.StateForwarding:
			claims.Outcome = interaction.OutcomeIndeterminate
		case ledger.StateFailed, ledger.StateRefused: // nothing was sent
			claims.Outcome = interaction.OutcomeFailed
		}
	})
}

func moment(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

func status(of int) int64 {
	if of < 100 || of > 999 {
		return 0
	}
	return int64(of)
}

// EndModel remembers the answer at once.
func (call *Call) EndModel(state ledger.State, in inference.Interaction, handed time.Time) {
	if call == nil {
		return
	}
	call.end(func() { call.chain.answered(call, in) }, func(call *Call) { call.conclude(state, in, handed) })
}

var outcomes = map[inference.Outcome]string{
	inference.OutcomeComplete: interaction.OutcomeCompleted, inference.OutcomeFailed: interaction.OutcomeFailed,
	inference.OutcomeUnfinished: interaction.OutcomeUnfinished, inference.OutcomeCut: interaction.OutcomeCut,
	inference.OutcomeLeft: interaction.OutcomeLeft, inference.OutcomeUnread: interaction.OutcomeNotMeasured,
}

func (call *Call) conclude(state ledger.State, in inference.Interaction, handed time.Time) {
	claims, m := &call.claims, call.claims.Model
	if call.overtaken {
		m.Figures.Turnaround = interaction.NotMeasured
	}
	claims.Timing.ResponseSent = moment(handed)
	if !in.Sent.IsZero() {
		claims.Timing.LLMStart = max(in.Sent.UnixMilli(), claims.Timing.RequestReceived)
	}
	switch {
	case !in.Head.IsZero():
		claims.Outcome = outcomes[in.Outcome]
	case state == ledger.StateFailed || state == ledger.StateRefused: // nothing was sent
		claims.Outcome = interaction.OutcomeFailed
		return
	default:
		claims.Outcome = interaction.OutcomeIndeterminate
		return
	}
	claims.Timing.LLMEnd = max(in.End.UnixMilli(), claims.Timing.LLMStart, claims.Timing.RequestReceived)
	if !handed.IsZero() {
		claims.Timing.ResponseSent = max(claims.Timing.ResponseSent, claims.Timing.LLMEnd)
	}
	m.AnsweredBy, m.Status, m.Streamed, m.Unread = in.Model, status(in.Status), in.Streamed, in.Reason
	f := &m.Figures
	if !in.Sent.IsZero() {
		f.Duration = millis(in.End.Sub(in.Sent))
		if !in.First.IsZero() {
			f.FirstDelta = millis(in.First.Sub(in.Sent))
		}
	}
	f.Deltas = in.Deltas
	f.InputTokens, f.OutputTokens = in.Input, in.Output
	f.CachedTokens, f.ReasoningTokens = in.Cached, in.Reasoning
	if in.Reason != inference.ReasonNone {
		return
	}
	f.HostedCalls = in.HostedCalls
	call.said(in)
}

func (call *Call) said(in inference.Interaction) {
	c, m := call.chain, call.claims.Model
	f := &m.Figures
	hashes, words, calls := make([][]byte, 0, len(in.Said)), 0, []inference.Block(nil)
	for _, b := range in.Said {
		hashes = append(hashes, b.Hash[:])
		if b.Kind == inference.KindCall {
			calls = append(calls, b)
		} else if b.Measured != nil {
			words += b.Measured.Words
		}
	}
	call.claims.OutputCleanHash = hex.EncodeToString(c.mac("clean", hashes...))
	call.claims.OutputTransportHash = hex.EncodeToString(in.Transport[:])
	for _, b := range clip(calls, interaction.MaxToolCalls) {
		m.ToolCalls = append(m.ToolCalls, c.toolCall(b, in.Request.Tools))
	}
	if !in.SaidAll {
		m.ToolCalls = nil // their number is unknown
		return
	}
	f.OutputBytes, f.OutputWords = interaction.Observed(int64(in.SaidBytes)), interaction.Observed(int64(words))
	f.ToolCallsMade = interaction.Observed(int64(len(calls)))
	c.sampled(m, in.Sample)
}

// toolCall names the tool only if the request offered it: any other name is the model's words. A name cut to fit might
// be another tool's.
func (c *Chain) toolCall(b inference.Block, offered []string) (t interaction.ToolCall) {
	if b.ID != "" {
		t.ID = c.tagOf("call", b.ID).String()
	}
	if len(b.Name) <= interaction.MaxToolName && slices.Contains(offered, b.Name) {
		t.Tool = b.Name
	}
	if b.Hash != [32]byte{} {
		t.Arguments = tag(b.Hash[:16]).String()
	}
	return t
}

func millis(d time.Duration) interaction.Figure {
	return interaction.Observed(max(0, d.Milliseconds()))
}
