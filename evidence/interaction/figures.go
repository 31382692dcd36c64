package interaction

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// How a [Figure] is known.
const (
	StateObserved    = "observed"     // the mediator counted or timed it
	StateDeclared    = "declared"     // the provider or the agent states it
	StateEstimated   = "estimated"    // the mediator computed it
	StateNotMeasured = "not_measured" // unknown: ignore the value 0
)

// Figure is a number and who vouches for it.
type Figure struct {
	State string `json:"state"`
	Value int64  `json:"value"`
}

// NotMeasured differs from an observed 0.
var NotMeasured = Figure{State: StateNotMeasured}

// Observed returns a figure that the mediator itself counted or timed.
func Observed(n int64) Figure { return Figure{StateObserved, n} }

// Declared returns a figure that the agent or the provider states.
func Declared(n int64) Figure { return Figure{StateDeclared, n} }

// Estimated returns a figure that the mediator could only approximate.
func Estimated(n int64) Figure { return Figure{StateEstimated, n} }

// ModelCall describes a call to a model. [ObservedOf] lists its observed claims.
type ModelCall struct {
	API        string `json:"api"`                   // observed: the API by which the rule read the call
	Host       string `json:"host"`                  // observed: host and port, the last 128 bytes
	Rule       string `json:"rule"`                  // observed: the egress rule, the first 128 bytes
	Model      string `json:"model,omitempty"`       // declared by the agent: the model it asked for
	AnsweredBy string `json:"answered_by,omitempty"` // declared by the provider: the model that answered
	Status     int64  `json:"status,omitempty"`      // observed: HTTP status; absent without an answer
	Streamed   bool   `json:"streamed"`              // observed: the answer was a stream
	// observed: the first MaxHosted tools that the request lets the provider use by itself; their use is not seen
	HostedTools []string `json:"hosted_tools,omitempty"`
	// observed: members of the request that the mediator let pass without knowing what they do, as many as MaxHosted
	// allows
	UnknownMembers []string `json:"unknown_members,omitempty"`
	// why the answer was not read to its end; its figures are then not measured
	Unread string `json:"unread,omitempty"`

	// the answer's first MaxToolCalls tool calls: observed; only an agent that owns the provider could invent them
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// tags of call ids from observed answers of this session whose result this request is the first to return, at most
	// MaxReturned: observed; the result itself is the agent's
	ReturnedCalls []string `json:"returned_calls,omitempty"`
	Probe         *Probe   `json:"probe,omitempty"`

	Figures ModelFigures `json:"figures"`
}

// ToolCall is a model's request for a tool, as its answer names it.
type ToolCall struct {
	ID string `json:"id,omitempty"` // tag of the provider's id; absent without one
	// its name, if the request offered the tool and the name has at most 64 bytes; the agent names its tools
	Tool      string `json:"tool,omitempty"`
	Arguments string `json:"arguments,omitempty"` // tag of the arguments' canonical JSON; absent if they were too large
}

// Probe is an appraiser's question to the model.
type Probe struct {
	ID     string `json:"id"`               // from the appraiser: observed as given
	Answer string `json:"answer,omitempty"` // tag of the answer's text: observed; absent if it was not read
}

// ModelFigures has times in milliseconds. A receipt has all figures; a stored open call omits unknown ones, which
// [ModelFigures.Complete] adds.
type ModelFigures struct {
	// observed: from the sent request to the end of the answer; a slow agent prolongs it
	Duration   Figure `json:"duration_ms,omitzero"`
	FirstDelta Figure `json:"ttft_ms,omitzero"` // observed: from the sent request to a stream's first content
	// observed: from the last content of the chain's previous answer to the complete arrival of this request, with the
	// time in which the agent did not read that answer; not measured without a previous answer, if calls overlapped, or
	// if a later call ended before this one
	Turnaround Figure `json:"turnaround_ms,omitzero"`
	Deltas     Figure `json:"deltas,omitzero"` // observed: pieces of a stream

	// declared by the provider, or estimated if a completed answer lacks it
	InputTokens Figure `json:"input_tokens,omitzero"`
	// as InputTokens; not measured if the answer was cut or left
	OutputTokens    Figure `json:"output_tokens,omitzero"`
	CachedTokens    Figure `json:"cached_tokens,omitzero"`    // declared by the provider: input from its cache
	ReasoningTokens Figure `json:"reasoning_tokens,omitzero"` // declared by the provider: hidden output
	HostedCalls     Figure `json:"hosted_calls,omitzero"`     // declared by the provider: calls of its own tools

	InputBytes  Figure `json:"input_bytes,omitzero"`  // observed: request text
	OutputBytes Figure `json:"output_bytes,omitzero"` // observed: answer text
	// observed: words in blocks that are new to the session
	NewInputWords Figure `json:"new_input_words,omitzero"`
	OutputWords   Figure `json:"output_words,omitzero"` // observed: words of the answer

	ToolCallsMade    Figure `json:"tool_calls_made,omitzero"`   // observed: tool calls in the answer
	UnmatchedResults Figure `json:"unmatched_results,omitzero"` // observed: results for ids of no observed answer
	// observed: blocks of earlier answers that this request is the first to return
	SelfReferences Figure `json:"self_references,omitzero"`
	// the longest path of calls, ending in this answer, in which each call uses a value of the previous one's result:
	// declared, because the results are the agent's words; DepthRelayed counts only calls that an MCP server answered
	// through the mediator, each once: observed
	Depth        Figure `json:"depth,omitzero"`
	DepthRelayed Figure `json:"depth_relayed,omitzero"`

	// The last figures measure the first SampleBytes of text that this model has answered in the session; of several
	// choices, the first. Observed. Below MinSample they would reveal a short text.
	SampleBytes Figure `json:"sample_bytes,omitzero"`
	// Shannon entropy of words, Miller-Madow corrected, in 1/1000 bit
	WordEntropy Figure `json:"word_entropy_millibits,omitzero"`
	Compression Figure `json:"compression_permille,omitzero"` // compressed size, in 1/1000 of the size
}

// bytes
const MinSample = 4 << 10

var (
	canBeObserved = []string{StateObserved, StateNotMeasured}
	canBeDeclared = []string{StateDeclared, StateNotMeasured}
	canBeTokens   = []string{StateDeclared, StateEstimated, StateNotMeasured}
)

type figureKind struct {
	figures []*Figure
	states  []string
}

func (f *ModelFigures) kinds() [3]figureKind {
	return [3]figureKind{
		{[]*Figure{
			&f.Duration, &f.FirstDelta, &f.Turnaround, &f.Deltas, &f.InputBytes, &f.OutputBytes, &f.NewInputWords,
			&f.OutputWords, &f.ToolCallsMade,
			&f.UnmatchedResults, &f.SelfReferences, &f.DepthRelayed, &f.SampleBytes, &f.WordEntropy, &f.Compression,
		}, canBeObserved},
		{[]*Figure{&f.InputTokens, &f.OutputTokens}, canBeTokens},
		{[]*Figure{&f.CachedTokens, &f.ReasoningTokens, &f.HostedCalls, &f.Depth}, canBeDeclared},
	}
}

// Complete sets figures without a state to [NotMeasured].
func (f *ModelFigures) Complete() {
	for _, of := range f.kinds() {
		for _, figure := range of.figures {
			if figure.State == "" {
				*figure = NotMeasured
			}
		}
	}
}

func (f *ModelFigures) check() error {
	for _, of := range f.kinds() {
		for _, figure := range of.figures {
			if !slices.Contains(of.states, figure.State) || figure.Value < 0 || figure.State == StateNotMeasured &&
				figure.Value != 0 {
				return fmt.Errorf("a figure has the value %d and is %.40q, which it cannot be", figure.Value,
					figure.State)
			}
		}
	}
	for _, figure := range []Figure{f.SampleBytes, f.WordEntropy, f.Compression} {
		if figure.State != StateNotMeasured && (f.SampleBytes.State == StateNotMeasured ||
			f.SampleBytes.Value < MinSample) {
			return fmt.Errorf("entropy and compression are of fewer than %d bytes", MinSample)
		}
	}
	return nil
}

func (m *ModelCall) check(outcome string) error {
	switch {
	case m == nil:
		return nil
	case m.Status != 0 && (m.Status < 100 || m.Status > 999):
		return errors.New("model_call.status is not a status of HTTP")
	case m.Unread == "" && outcome == OutcomeNotMeasured,
		m.Unread != "" && outcome != OutcomeNotMeasured && outcome != OutcomeFailed:
		return errors.New("model_call.unread does not fit to its outcome")
	case len(m.HostedTools)+len(m.UnknownMembers) > MaxHosted || len(m.ToolCalls) > MaxToolCalls ||
		len(m.ReturnedCalls) > MaxReturned:
		return fmt.Errorf("model_call has more entries than %d hosted tools and unknown members, %d "+
			"calls and %d results", MaxHosted, MaxToolCalls, MaxReturned)
	case int64(len(m.ToolCalls)) != min(m.Figures.ToolCallsMade.Value, MaxToolCalls):
		return fmt.Errorf("model_call.tool_calls are not the first %d of tool_calls_made", MaxToolCalls)
	}
	err := cmp.Or(
		checkShort(
			short{"model_call.api", m.API, maxShortName, false}, short{"model_call.host", m.Host, maxName, false},
			short{"model_call.rule", m.Rule, maxName, false},
			short{"model_call.model", m.Model, maxName, true},
			short{"model_call.answered_by", m.AnsweredBy, maxName, true},
			short{"model_call.unread", m.Unread, maxShortName, true},
		),
		m.Probe.check(), m.Figures.check(),
	)
	for i, tag := range m.ReturnedCalls {
		err = cmp.Or(err, checkTag("model_call.returned_calls", tag, false))
		if slices.Contains(m.ReturnedCalls[:i], tag) {
			return errors.New("model_call.returned_calls names a call twice")
		}
	}
	for _, name := range m.HostedTools {
		err = cmp.Or(err, checkShort(short{"model_call.hosted_tools", name, maxShortName, false}))
	}
	for _, name := range m.UnknownMembers {
		err = cmp.Or(err, checkShort(short{"model_call.unknown_members", name, maxShortName, false}))
	}
	for _, call := range m.ToolCalls {
		err = cmp.Or(err, checkTag("model_call.tool_calls.id", call.ID, true),
			checkTag("model_call.tool_calls.arguments", call.Arguments, true),
			checkShort(short{"model_call.tool_calls.tool", call.Tool, maxShortName, true}))
	}
	return err
}

func (p *Probe) check() error {
	if p == nil {
		return nil
	}
	return cmp.Or(checkTag("model_call.probe.answer", p.Answer, true),
		checkShort(short{"model_call.probe.id", p.ID, maxName, false}))
}
