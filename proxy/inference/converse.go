package inference

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/proxy/frames"
	"github.com/actionproof/mediator/proxy/inference/members"
)

// Amazon's Converse and ConverseStream

type converseAnswer struct {
	Output struct {
		Message struct {
			Content list[converseBlock] `json:"content"`
		} `json:"message"`
	} `json:"output"`
	Stop  string      `json:"stopReason"`
	Usage amazonUsage `json:"usage"`
}

type converseBlock struct {
	Text      string           `json:"text"`
	Call      *converseCall    `json:"toolUse"`
	Reasoning converseThinking `json:"reasoningContent"`
}

type converseCall struct {
	ID    string         `json:"toolUseId"`
	Name  string         `json:"name"`
	Type  string         `json:"type"` // server_tool_use for the provider's own
	Input jsontext.Value `json:"input"`
}

type converseThinking struct {
	Text  string `json:"text"` // of a stream
	Whole struct {
		Text string `json:"text"`
	} `json:"reasoningText"`
}

type converseEvent struct {
	Index int           `json:"contentBlockIndex"`
	Start converseBlock `json:"start"`
	Delta converseBlock `json:"delta"`
	Stop  string        `json:"stopReason"`
	Usage amazonUsage   `json:"usage"`
}

func (c converseCall) isHosted() bool { return c.Type != "" && c.Type != "tool_use" }

func readConverseEvent(t *tally, data []byte) bool {
	if t.exception() {
		return true
	}
	var e converseEvent
	if !decode(t, data, &e) {
		return false
	}
	switch t.named {
	case "contentBlockStart":
		if e.Start.Call == nil {
			break
		}
		if e.Start.Call.isHosted() {
			t.hosted++
			break
		}
		at := position{item: e.Index, kind: KindCall}
		t.doubt(t.has(at))
		t.call(at, e.Start.Call.ID, e.Start.Call.Name, "")
	case "contentBlockDelta":
		t.text(position{item: e.Index, kind: KindText}, e.Delta.Text)
		t.text(position{item: e.Index, kind: KindReasoning}, e.Delta.Reasoning.Text)
		if at := (position{item: e.Index, kind: KindCall}); e.Delta.Call != nil && t.has(at) {
			t.call(at, "", "", textOf(e.Delta.Call.Input))
		}
	case "messageStop":
		t.stop(0, e.Stop)
		t.ended = true // the usage follows
	case "metadata":
		e.Usage.declare(t.in)
	}
	return true
}

func readConverse(t *tally, body []byte) bool {
	var a converseAnswer
	if !decode(t, body, &a) {
		return false
	}
	for i, b := range a.Output.Message.Content {
		t.text(position{item: i, kind: KindText}, b.Text)
		t.text(position{item: i, kind: KindReasoning}, b.Reasoning.Whole.Text)
		switch {
		case b.Call == nil:
		case b.Call.isHosted():
			t.hosted++
		default:
			t.call(position{item: i}, b.Call.ID, b.Call.Name, textOf(b.Call.Input))
		}
	}
	t.stop(0, a.Stop)
	a.Usage.declare(t.in)
	return true
}

// exception notes the failure that an event of Amazon's reports, if it does.
func (t *tally) exception() bool {
	name, is := strings.CutPrefix(t.named, frames.Exception)
	if is {
		t.ended = true
		t.failure(nil)
		t.in.Error = cmp.Or(t.in.Error, members.NameOf(name))
	}
	return is
}
