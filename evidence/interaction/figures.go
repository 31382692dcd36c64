package interaction

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// How a [Figure] is known.
const (
	StateObserved    = "observed"     // counted or timed by the mediator
	StateDeclared    = "declared"     // the provider or the agent says so, which cannot be checked
	StateEstimated   = "estimated"    // made by the mediator of what it saw
	StateNotMeasured = "not_measured" // not known; the value is 0 and means nothing
)

// Figure is a number that says how it is known.
type Figure struct {
	State string `json:"state"`
	Value int64  `json:"value"`
}

// NotMeasured is a figure of which nothing is known.
var NotMeasured = Figure{State: StateNotMeasured}

// Observed returns a figure that the mediator has counted or timed.
func Observed(n int64) Figure { return Figure{StateObserved, n} }

// Declared returns a figure that somebody else says.
func Declared(n int64) Figure { return Figure{StateDeclared, n} }

// Estimated returns a figure that the mediator has made of what it saw.
func Estimated(n int64) Figure { return Figure{StateEstimated, n} }

// ModelCall is what is known of a call to a model. Beside each claim stands who says it; [ObservedOf] has those that the mediator sees.
type ModelCall struct {
	API         string   `json:"api"`                    // observed: the shape of the API by which the call was read, as the rule names it
	Host        string   `json:"host"`                   // observed: host and port that it was sent to, the last 128 bytes
	Rule        string   `json:"rule"`                   // observed: the egress rule, the first 128 bytes
	Model       string   `json:"model,omitempty"`        // declared by the agent: the model that was asked for
	AnsweredBy  string   `json:"answered_by,omitempty"`  // declared by the provider: the model that answered
	Status      int64    `json:"status,omitempty"`       // observed: of HTTP; left out where there was no answer
	Streamed    bool     `json:"streamed"`               // observed: whether the answer came as a stream
	HostedTools []string `json:"hosted_tools,omitempty"` // observed: what the request lets the provider do by itself, the first MaxHosted; what it did then was not seen
	Unread      string   `json:"unread,omitempty"`       // why the answer was not followed to its end; its figures are then not measured

	// ToolCalls are the calls of tools that the answer asks for, the first MaxToolCalls of ToolCallsMade: observed. The agent cannot make
	// them, as the provider's answer does; a provider that belongs to the agent can.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// ReturnedCalls are tags of call ids that an observed answer of this session has made, and whose result this request is the first to
	// bring, MaxReturned at most: observed. What the result says is the agent's. Results for ids that no answer has made are only counted,
	// by UnmatchedResults: an agent can invent those.
	ReturnedCalls []string `json:"returned_calls,omitempty"`
	// Probe is there where the call carried a probe of an appraiser.
	Probe *Probe `json:"probe,omitempty"`

	Figures ModelFigures `json:"figures"`
}

// ToolCall is a call of a tool that a model asks for.
type ToolCall struct {
	ID        string `json:"id,omitempty"`        // tag of the id that the provider gave it; left out where it gave none
	Tool      string `json:"tool,omitempty"`      // its name, if the request had offered such a tool and the name has no more than 64 bytes; the agent names its tools
	Arguments string `json:"arguments,omitempty"` // tag of the canonical JSON of its arguments; left out where they were too large
}

// Probe is a question of an appraiser that was put to the model.
type Probe struct {
	ID     string `json:"id"`               // given by the appraiser: observed as given
	Answer string `json:"answer,omitempty"` // tag of the answer's text: observed; left out where the answer was not followed
}

// ModelFigures are the figures of a call to a model. Times are in milliseconds. Tokens a second are no figure: they are the output tokens by
// the duration. So is the speed of reading: it is the words by the turnaround. A receipt has all figures. What is kept of an open
// call leaves out those that are not known yet, which would be half of its text; [ModelFigures.Complete] adds them.
type ModelFigures struct {
	Duration   Figure `json:"duration_ms,omitzero"` // observed: from the request sent to the end of the answer; an agent that takes the answer slowly makes it longer
	FirstDelta Figure `json:"ttft_ms,omitzero"`     // observed: from the request sent to the first content, of a stream
	// Turnaround is observed: from the last content of the answer to the call to a model before this one in the chain until this request had come
	// whole, with the time in which the agent did not take what had come of that answer. It is not measured where there was none, where this request
	// had begun before that answer ended, or where a later call ended before this one.
	Turnaround Figure `json:"turnaround_ms,omitzero"`
	Deltas     Figure `json:"deltas,omitzero"` // observed: pieces in which a stream came

	InputTokens     Figure `json:"input_tokens,omitzero"`     // declared by the provider, or estimated of what was sent if it completed an answer without them
	OutputTokens    Figure `json:"output_tokens,omitzero"`    // declared by the provider, or estimated of what came of a completed answer; not measured of one that was cut or left
	CachedTokens    Figure `json:"cached_tokens,omitzero"`    // declared by the provider: those of the input that came from its cache
	ReasoningTokens Figure `json:"reasoning_tokens,omitzero"` // declared by the provider: those of the output that were not shown
	HostedCalls     Figure `json:"hosted_calls,omitzero"`     // declared by the provider: what its own tools did, as the answer shows it

	InputBytes    Figure `json:"input_bytes,omitzero"`     // observed: text of the request
	OutputBytes   Figure `json:"output_bytes,omitzero"`    // observed: text of the answer
	NewInputWords Figure `json:"new_input_words,omitzero"` // observed: words of those blocks of the request that were in no request or answer of the session before, each once
	OutputWords   Figure `json:"output_words,omitzero"`    // observed: words of the answer

	ToolCallsMade    Figure `json:"tool_calls_made,omitzero"`   // observed: calls of tools that the answer asks for
	UnmatchedResults Figure `json:"unmatched_results,omitzero"` // observed: results in the request for ids that no observed answer of the session has made
	SelfReferences   Figure `json:"self_references,omitzero"`   // observed: blocks of earlier answers of the session that come back in this request, as the model's own words, for the first time
	// Depth is the longest path of calls of which each has in its arguments a value of the result of the one before it, and whose last is a call of
	// this answer: 0 where it asks for no call. A result is what the agent's requests say it is: declared. DepthRelayed is the longest such path of
	// calls that an MCP server has answered through the mediator, and whose last result gave a value to a call of this answer: observed. Each of them
	// was asked for by an answer in these words, and counts once.
	Depth        Figure `json:"depth,omitzero"`
	DepthRelayed Figure `json:"depth_relayed,omitzero"`

	// Of the text that this model (Host and Model) has answered in the session so far (of several choices the first), its first SampleBytes: observed. Under MinSample bytes
	// they are not measured, as they would tell of a short text what it says.
	SampleBytes Figure `json:"sample_bytes,omitzero"`
	WordEntropy Figure `json:"word_entropy_millibits,omitzero"` // Shannon entropy of words with the correction of Miller and Madow, in 1/1000 bit
	Compression Figure `json:"compression_permille,omitzero"`   // size of the text compressed, in 1/1000 of its size
}

// MinSample is the least text of which entropy and compression are told, in bytes.
const MinSample = 4 << 10

// How a figure can be known.
var (
	canBeObserved = []string{StateObserved, StateNotMeasured}
	canBeDeclared = []string{StateDeclared, StateNotMeasured}
	canBeTokens   = []string{StateDeclared, StateEstimated, StateNotMeasured}
)

// figureKind is figures that can have the same states.
type figureKind struct {
	figures []*Figure
	states  []string
}

// kinds returns all figures, by the states that they can have.
func (f *ModelFigures) kinds() [3]figureKind {
	return [3]figureKind{
		{[]*Figure{
			&f.Duration, &f.FirstDelta, &f.Turnaround, &f.Deltas, &f.InputBytes, &f.OutputBytes, &f.NewInputWords, &f.OutputWords, &f.ToolCallsMade,
			&f.UnmatchedResults, &f.SelfReferences, &f.DepthRelayed, &f.SampleBytes, &f.WordEntropy, &f.Compression,
		}, canBeObserved},
		{[]*Figure{&f.InputTokens, &f.OutputTokens}, canBeTokens},
		{[]*Figure{&f.CachedTokens, &f.ReasoningTokens, &f.HostedCalls, &f.Depth}, canBeDeclared},
	}
}

// Complete says of every figure without a state that it was not measured.
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
			if !slices.Contains(of.states, figure.State) || figure.Value < 0 || figure.State == StateNotMeasured && figure.Value != 0 {
				return fmt.Errorf("a figure has the value %d and is %.40q, which it cannot be", figure.Value, figure.State)
			}
		}
	}
	for _, figure := range []Figure{f.SampleBytes, f.WordEntropy, f.Compression} {
		if figure.State != StateNotMeasured && (f.SampleBytes.State == StateNotMeasured || f.SampleBytes.Value < MinSample) {
			return fmt.Errorf("entropy and compression are of less than %d bytes", MinSample)
		}
	}
	return nil
}

func (m *ModelCall) check(outcome string) error {
	switch {
	case m == nil:
		return nil
	case m.Status != 0 && (m.Status < 100 || m.Status > 999):
		return errors.New("model_call.status is no status of HTTP")
	case m.Unread == "" && outcome == OutcomeNotMeasured, m.Unread != "" && outcome != OutcomeNotMeasured && outcome != OutcomeFailed:
		return errors.New("model_call.unread does not fit to its outcome")
	case len(m.HostedTools) > MaxHosted || len(m.ToolCalls) > MaxToolCalls || len(m.ReturnedCalls) > MaxReturned:
		return fmt.Errorf("model_call has a list of more entries than %d hosted tools, %d calls and %d results", MaxHosted, MaxToolCalls, MaxReturned)
	case int64(len(m.ToolCalls)) != min(m.Figures.ToolCallsMade.Value, MaxToolCalls):
		return fmt.Errorf("model_call.tool_calls are not the first %d of tool_calls_made", MaxToolCalls)
	}
	err := cmp.Or(
		checkShort(
			short{"model_call.api", m.API, maxShortName, false}, short{"model_call.host", m.Host, maxName, false}, short{"model_call.rule", m.Rule, maxName, false},
			short{"model_call.model", m.Model, maxName, true}, short{"model_call.answered_by", m.AnsweredBy, maxName, true},
			short{"model_call.unread", m.Unread, maxShortName, true},
		),
		m.Probe.check(), m.Figures.check(),
	)
	for i, tag := range m.ReturnedCalls {
		if err = cmp.Or(err, checkTag("model_call.returned_calls", tag, false)); slices.Contains(m.ReturnedCalls[:i], tag) {
			return errors.New("model_call.returned_calls names a call twice")
		}
	}
	for _, name := range m.HostedTools {
		err = cmp.Or(err, checkShort(short{"model_call.hosted_tools", name, maxShortName, false}))
	}
	for _, call := range m.ToolCalls {
		err = cmp.Or(err, checkTag("model_call.tool_calls.id", call.ID, true), checkTag("model_call.tool_calls.arguments", call.Arguments, true),
			checkShort(short{"model_call.tool_calls.tool", call.Tool, maxShortName, true}))
	}
	return err
}

func (p *Probe) check() error {
	if p == nil {
		return nil
	}
	return cmp.Or(checkTag("model_call.probe.answer", p.Answer, true), checkShort(short{"model_call.probe.id", p.ID, maxName, false}))
}
