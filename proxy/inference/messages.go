package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/proxy/jsonread"
)

type messageEvent struct {
	Type    string         `json:"type"`
	Index   int            `json:"index"`
	Message message        `json:"message"`
	Block   messageBlock   `json:"content_block"`
	Error   jsontext.Value `json:"error"`
	Usage   usage          `json:"usage"`
	Delta   struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
		JSON     string `json:"partial_json"`
		Stop     string `json:"stop_reason"`

		Container container `json:"container"`
	} `json:"delta"`
}

type message struct {
	Type    string             `json:"type"`
	ID      string             `json:"id"`
	Model   string             `json:"model"`
	Content list[messageBlock] `json:"content"`
	Stop    string             `json:"stop_reason"`
	Usage   usage              `json:"usage"`
	Error   jsontext.Value     `json:"error"`

	Container container `json:"container"`
}

type container struct {
	ID string `json:"id"`
}

type messageBlock struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Thinking string         `json:"thinking"`
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Input    jsontext.Value `json:"input"`
}

func readMessageEvent(t *tally, data []byte) bool {
	wrapped := t.named == "chunk"
	if wrapped {
		var c struct { // Amazon's InvokeModelWithResponseStream
			Bytes []byte `json:"bytes"`
		}
		if !decode(t, data, &c) || jsonread.Exceeds(c.Bytes) {
			return false
		}
		data = c.Bytes
	}
	var e messageEvent
	switch {
	case t.exception():
		return true
	case !decode(t, data, &e):
		return false
	case wrapped:
		t.named = e.Type
	}
	t.doubt(t.named != e.Type) // clients go by one or the other
	switch e.Type {
	case "message_start":
		t.model(e.Message.Model)
		t.made(e.Message.ID)
		t.made(e.Message.Container.ID)
		e.Message.Usage.declare(t.in)
		t.doubt(len(e.Message.Content) > 0) // some clients take it for more blocks
	case "content_block_start":
		// clients take a second one of the same number for another block
		t.doubt(slices.ContainsFunc(t.blocks, func(s *said) bool { return s.at.item == e.Index }))
		e.Block.read(t, e.Index)
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta":
			t.text(position{item: e.Index, kind: KindText}, e.Delta.Text)
		case "thinking_delta":
			t.text(position{item: e.Index, kind: KindReasoning}, e.Delta.Thinking)
		case "input_json_delta":
			if at := (position{item: e.Index, kind: KindCall}); t.has(at) { // not the input of a provider's own tool
				t.call(at, "", "", e.Delta.JSON)
			}
		}
	case "message_delta":
		t.stop(0, e.Delta.Stop)
		t.made(e.Delta.Container.ID)
		e.Usage.declare(t.in)
	case "message_stop":
		t.ended = true
	case "error":
		t.ended = true
		t.failure(e.Error)
	}
	return true
}

func readMessage(t *tally, body []byte) bool {
	var m message
	if !decode(t, body, &m) {
		return false
	}
	if m.Type == "error" {
		t.failure(m.Error)
		return true
	}
	t.model(m.Model)
	t.made(m.ID)
	t.made(m.Container.ID)
	for i, b := range m.Content {
		b.read(t, i)
	}
	t.stop(0, m.Stop)
	m.Usage.declare(t.in)
	return true
}

func (b messageBlock) read(t *tally, i int) {
	switch b.Type {
	case "text":
		t.text(position{item: i, kind: KindText}, b.Text)
	case "thinking":
		t.text(position{item: i, kind: KindReasoning}, b.Thinking)
	case "tool_use":
		input := textOf(b.Input)
		if t.stream { // an empty object here; the members follow in pieces, which some clients take instead
			t.doubt(canonical(input) != "{}")
			input = ""
		}
		t.call(position{item: i}, b.ID, b.Name, input)
	case "server_tool_use", "mcp_tool_use": // the provider's own
		t.hosted++
	}
}
