package generate

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"

	json2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/upstream"
)

const (
	maxAnswer = 4 << 20 // bytes of an answer held in memory
	maxSaid   = 1 << 10 // bytes of text passed to [Call.Said]
)

// Call is one call in progress. Its fields are set before its answer comes.
type Call struct {
	Record string // the id of the call's record
	Key    []byte // see [inference.Read]
	// Take reserves n bytes of memory. The caller releases them when the call ends.
	Take func(n int) error
	// Said gets the model's text; nil if not needed. It is not called for an empty text, a refusal, or more than 1 KiB.
	Said func(text string)
	// Receipt returns the receipt of the finished call. Nil if the session makes no receipts. If it fails, the answer
	// is refused.
	Receipt func() (*Receipt, error)
}

type usage struct {
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
}

type document struct {
	Record string `json:"record"`
	Model  string `json:"model,omitzero"` // the model that answered, as the provider says
	Output string `json:"output"`
	Finish string `json:"finishReason"`
	Usage  *usage `json:"usage,omitzero"`
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
	"length": "length", "max_output_tokens": "length", "max_tokens": "length",
	"model_context_window_exceeded": "length", "content_filter": "filtered", "refusal": "refused",
}

// Answer replaces resp, the model's answer to asked, with the answer to the agent. It fails if there is nothing to pass
// on.
func (c *Call) Answer(resp *http.Response, asked *inference.Request) error {
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
		if err != nil {
			body = nil // the status says enough
		}
		return failureOf(resp.StatusCode, resp.Header, body)
	}
	body, err := c.read(resp)
	if err != nil {
		return err
	}
	d, err := c.document(body, asked)
	if err != nil {
		return err
	}
	// json2 alone would write an unknown time of a receipt as 0.
	text, err := json2.Marshal(d, jsonv1.OmitEmptyWithLegacySemantics(true))
	if err != nil {
		return err
	}
	resp.Header = http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"},
		"X-Content-Type-Options": {"nosniff"}}
	resp.Trailer, resp.ContentLength = nil, int64(len(text)+1)
	resp.Body = io.NopCloser(bytes.NewReader(append(text, '\n')))
	return nil
}

func (c *Call) read(resp *http.Response) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	coding := resp.Header.Get("Content-Encoding")
	if kind != "application/json" || coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, unread("is not JSON, or it is compressed")
	}
	text, err := io.ReadAll(io.LimitReader(body.Metered{Reader: resp.Body, Take: c.Take}, maxAnswer+1))
	if err == nil && resp.Request != nil {
		// A model that hears of the cancelled call may end its answer as if it were complete.
		err = resp.Request.Context().Err()
	}
	if err != nil {
		return nil, upstream.Classify(err)
	}
	if len(text) > maxAnswer {
		return nil, unread("has more than %d bytes", maxAnswer)
	}
	return text, nil
}

func unread(format string, args ...any) error {
	return refusal.New("generate_refused", "the answer of the model's API "+format, args...)
}

// document makes the answer to the agent of the model's.
func (c *Call) document(body []byte, asked *inference.Request) (d document, err error) {
	var text strings.Builder
	refused := false
	in, ok := inference.ReadAnswer(asked, body, c.Key, func(k inference.Kind, piece string) {
		refused = refused || k == inference.KindRefusal
		if k == inference.KindRefusal || k == inference.KindText {
			text.WriteString(piece)
		}
	})
	switch {
	case !ok:
		return d, unread("does not have the form of the egress rule's API")
	case in.Outcome == inference.OutcomeFailed:
		return d, &Failure{refused: refusal.New("generate_refused", "%s",
			strings.TrimSpace("the model's API broke its answer off with an error "+in.Error)), Status: http.StatusOK,
			Code: in.Error}
	case in.Outcome != inference.OutcomeComplete:
		return d, unread("is not complete: the provider goes on after it")
	}
	d = document{Record: c.Record, Model: in.Model, Output: text.String()}
	for _, s := range in.Stops {
		if s.Choice == 0 {
			d.Finish = s.Reason
		}
	}
	if known := finishReasons[d.Finish]; known != "" {
		d.Finish = known
	}
	if refused {
		d.Finish = "refused"
	}
	if in.Input.State == interaction.StateDeclared && in.Output.State == interaction.StateDeclared {
		d.Usage = &usage{in.Input.Value, in.Output.Value}
	}
	if c.Said != nil && !refused && text.Len() > 0 && text.Len() <= maxSaid {
		c.Said(d.Output)
	}
	if c.Receipt != nil {
		d.Receipt, err = c.Receipt()
	}
	return d, err
}
