package generate

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	json2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/upstream"
)

const (
	maxAnswer = 4 << 20 // bytes of an answer held in memory
	maxSaid   = 1 << 10 // bytes of text passed to [Call.Said]
	pieceSize = 4 << 10 // bytes read at once
)

// Call is one call in progress. Its fields are set before its answer comes.
type Call struct {
	Stream bool   // the agent wants events
	Record string // the id of the call's record
	Key    []byte // see [inference.Read]
	// Take reserves n bytes of memory. The caller releases them when the call ends.
	Take func(n int) error
	// Said gets the model's complete text; nil if not needed. It is not called for an empty text, a refusal, or more
	// than 1 KiB.
	Said func(text string)
	// Receipt returns the receipt of the finished call. Nil if the session makes no receipts. If it fails, the answer
	// is refused.
	Receipt func() (*Receipt, error)
}

type usage struct {
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
}

// document is the answer to the agent. The last event of a stream has all of it but the output.
type document struct {
	Record string  `json:"record"`
	Model  string  `json:"model,omitzero"` // the model that answered, as the provider says
	Output *string `json:"output,omitzero"`
	Finish string  `json:"finishReason"`
	Usage  *usage  `json:"usage,omitzero"`
	*Receipt
}

// Receipt is the interaction receipt of a call, with the claims that agents use.
type Receipt struct {
	Token     string                    `json:"receipt"`
	Hash      string                    `json:"receipt_hash"` // names the receipt's score
	Timing    interaction.Timing        `json:"timing"`
	Chain     interaction.ChainLink     `json:"chain"`
	Challenge *interaction.ChallengeRef `json:"challenge,omitzero"`
}

// finishReasons translates the providers' finish reasons. Others pass unchanged.
var finishReasons = map[string]string{
	"stop": "stop", "completed": "stop", "end_turn": "stop", "stop_sequence": "stop",
	"length": "length", "max_output_tokens": "length", "max_tokens": "length", "model_context_window_exceeded": "length",
	"content_filter": "filtered", "refusal": "refused",
}

// Answer replaces resp, the model's answer to asked, with the answer to the agent. It fails if there is nothing to pass
// on. A stream that fails later sends an error event, and then its body fails.
func (c *Call) Answer(resp *http.Response, asked *inference.Request) error {
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
		if err != nil {
			body = nil // the status says enough
		}
		return failureOf(resp.StatusCode, resp.Header, body)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	events := kind == "text/event-stream"
	if coding := resp.Header.Get("Content-Encoding"); !events && kind != "application/json" || coding != "" &&
		!strings.EqualFold(coding, "identity") {
		return unread("is neither JSON nor a stream of events, or it is compressed")
	}
	o := &output{call: c, from: resp.Body, request: resp.Request, status: resp.StatusCode, events: events}
	o.reader = inference.NewReader(asked, events, c.Key, o.say)
	resp.Header, resp.Trailer = http.Header{"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}}, nil
	resp.ContentLength = -1
	if c.Stream {
		resp.Header.Set("Content-Type", "text/event-stream")
		resp.Body = o
		return nil
	}
	for o.end == nil {
		o.read()
	}
	if !errors.Is(o.end, io.EOF) {
		return o.end
	}
	resp.Header.Set("Content-Type", "application/json")
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(o.ready)), int64(len(o.ready))
	return nil
}

func unread(format string, args ...any) error {
	return refusal.New("generate_refused", "the answer of the model's API "+format, args...)
}

// output reads the answer of a model, and is the body of the answer to the agent.
type output struct {
	call    *Call
	from    io.ReadCloser
	request *http.Request // the request to the model
	status  int
	events  bool // the model sends events
	reader  *inference.Reader

	piece   [pieceSize]byte
	held    []byte          // the model's answer, if it is not a stream
	text    strings.Builder // the answer's text, if the agent wants no stream
	said    []byte          // the beginning of the text for [Call.Said], with one byte more than its limit
	refused bool            // the model refuses
	failed  error           // why the text cannot be held
	charged int             // bytes of memory reserved for the reader
	ready   []byte          // bytes for the agent
	end     error           // what ends the answer once ready is empty
}

// Close closes the model's answer.
func (o *output) Close() error { return o.from.Close() }

// Read gives out the answer to the agent.
func (o *output) Read(p []byte) (int, error) {
	for len(o.ready) == 0 {
		if o.end != nil {
			return 0, o.end
		}
		o.read()
	}
	n := copy(p, o.ready)
	if o.ready = o.ready[n:]; len(o.ready) == 0 {
		o.ready = nil // so that a large event is not kept
	}
	return n, nil
}

func (o *output) read() {
	n, err := o.from.Read(o.piece[:])
	if n > 0 {
		if failed := o.take(o.piece[:n]); failed != nil {
			o.fail(failed)
			return
		}
	}
	switch {
	case err == io.EOF && o.gone() != nil: //nolint:errorlint // io.Reader's contract
		o.fail(o.gone()) // a model that hears of the cancelled call may end its answer as if it were complete
	case err == io.EOF: //nolint:errorlint // io.Reader's contract
		o.conclude()
	case err != nil:
		o.fail(upstream.Classify(err))
	}
}

// gone reports why the agent no longer waits, or nil.
func (o *output) gone() error {
	if o.request == nil {
		return nil
	}
	return upstream.Classify(o.request.Context().Err())
}

func (o *output) take(p []byte) error {
	if o.events {
		if _, err := o.reader.Write(p); err != nil {
			return unread("is not as the API of the egress rule has it, or one of its events is too large")
		}
		if more := o.reader.Held() - o.charged; more > 0 && o.failed == nil {
			o.charged += more
			return o.call.Take(more)
		}
		return o.failed
	}
	if len(o.held)+len(p) > maxAnswer {
		return unread("has more than %d bytes", maxAnswer)
	}
	before := cap(o.held)
	o.held = append(o.held, p...)
	return o.call.Take(cap(o.held) - before)
}

func (o *output) say(k inference.Kind, text string) {
	switch k {
	case inference.KindRefusal:
		o.refused = true
	case inference.KindText:
	default:
		return
	}
	if o.call.Said != nil {
		o.said = append(o.said, text[:min(len(text), maxSaid+1-len(o.said))]...)
	}
	if o.call.Stream {
		o.event("text", struct {
			Text string `json:"text"`
		}{text})
		return
	}
	if o.failed != nil {
		return
	}
	if o.text.Len()+len(text) > maxAnswer {
		o.failed = unread("has more than %d bytes of text", maxAnswer)
		return
	}
	before := o.text.Cap()
	o.text.WriteString(text)
	o.failed = o.call.Take(o.text.Cap() - before)
}

func (o *output) conclude() {
	if !o.events {
		if o.reader.Whole(o.held) != nil {
			o.fail(unread("is not as the API of the egress rule has it"))
			return
		}
		if o.failed != nil {
			o.fail(o.failed)
			return
		}
	}
	in := o.reader.Interaction()
	switch in.Outcome {
	case inference.OutcomeComplete:
	case inference.OutcomeFailed:
		code := in.Error
		o.fail(&Failure{
			refused: refusal.New("generate_refused", "%s",
				strings.TrimSpace("the model's API broke its answer off with an error "+code)), Status: o.status, Code: code})
		return
	case inference.OutcomeCut:
		o.fail(refusal.New("upstream_lost", "the answer of the model's API ended before its end"))
		return
	default:
		o.fail(unread("is not the whole answer: the provider goes on without it"))
		return
	}
	d := document{Record: o.call.Record, Model: in.Model}
	for _, s := range in.Stops {
		if s.Choice == 0 {
			d.Finish = s.Reason
		}
	}
	if known := finishReasons[d.Finish]; known != "" {
		d.Finish = known
	}
	if o.refused {
		d.Finish = "refused"
	}
	if in.Input.State == interaction.StateDeclared && in.Output.State == interaction.StateDeclared {
		d.Usage = &usage{in.Input.Value, in.Output.Value}
	}
	if o.call.Said != nil && !o.refused && len(o.said) > 0 && len(o.said) <= maxSaid {
		o.call.Said(string(o.said))
	}
	if o.call.Receipt != nil {
		var err error
		if d.Receipt, err = o.call.Receipt(); err != nil {
			o.fail(err)
			return
		}
	}
	o.end = io.EOF
	if o.call.Stream {
		o.event("done", d)
		return
	}
	text := o.text.String()
	d.Output = &text
	o.ready, _ = marshal(d) // texts and numbers always marshal
	o.ready = append(o.ready, '\n')
}

// fail ends the answer. A stream gets an error event.
func (o *output) fail(err error) {
	o.end = err
	if !o.call.Stream {
		return
	}
	d := problem.ForAgent(err, o.call.Record)
	var said *Failure
	if errors.As(err, &said) {
		d.Upstream = said.Document()
	}
	o.event("error", d)
}

// marshal omits what a receipt omits: json2 alone would write an unknown time as 0.
func marshal(v any) ([]byte, error) {
	return json2.Marshal(v, jsonv1.OmitEmptyWithLegacySemantics(true))
}

func (o *output) event(name string, data any) {
	raw, err := marshal(data)
	if err != nil {
		o.failed = err
		return
	}
	o.ready = append(o.ready, "event: "+name+"\ndata: "...)
	o.ready = append(append(o.ready, raw...), "\n\n"...)
}
