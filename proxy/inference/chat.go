package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

type chatAnswer struct {
	Model   string           `json:"model"`
	Error   jsontext.Value   `json:"error"`
	Choices list[chatChoice] `json:"choices"`
	Usage   usage            `json:"usage"`
}

type chatChoice struct {
	Index   int         `json:"index"`
	Text    string      `json:"text"` // of completions
	Delta   chatMessage `json:"delta"`
	Message chatMessage `json:"message"`
	Finish  string      `json:"finish_reason"`
}

type chatMessage struct {
	Content   jsontext.Value `json:"content"`
	Refusal   string         `json:"refusal"`
	Thought   string         `json:"reasoning_content"`
	Reasoning jsontext.Value `json:"reasoning"` // some servers use this name
	Calls     list[toolCall] `json:"tool_calls"`
	Call      *named         `json:"function_call"`
	Audio     struct {
		ID string `json:"id"`
	} `json:"audio"`
}

// readChat allows small deviations: no usage, empty choices, reasoning beside the content, calls without an index. It
// also reads completions, and embeddings, which say nothing.
func readChat(t *tally, data []byte) bool {
	var a chatAnswer
	if !decode(t, data, &a) {
		return false
	}
	t.model(a.Model)
	switch a.Error.Kind() {
	case jsontext.KindInvalid:
	case 'n':
		t.doubt(t.stream) // one official client takes it for a failure
	default:
		t.failure(a.Error)
	}
	for i, c := range a.Choices {
		m := c.Delta
		if !t.stream { // clients go by the order
			m, c.Index = c.Message, i
		}
		if t.in.Request.Dialect == OpenAIChat {
			m.read(t, c.Index)
		} else {
			t.text(position{choice: c.Index, kind: KindText}, c.Text)
		}
		if c.Finish != "" {
			t.stop(c.Index, c.Finish) // ends nothing: usage may follow
		}
	}
	a.Usage.declare(t.in)
	return true
}

func (m chatMessage) read(t *tally, choice int) {
	t.made(m.Audio.ID)
	t.text(position{choice: choice, kind: KindReasoning}, m.Thought)
	if m.Thought == "" && m.Reasoning.Kind() == '"' {
		t.text(position{choice: choice, kind: KindReasoning}, textOf(m.Reasoning))
	}
	if m.Content.Kind() == '[' { // some servers answer in parts
		var parts list[struct {
			Text jsontext.Value `json:"text"`
		}]
		t.doubt(!decode(t, m.Content, &parts))
		for i, p := range parts {
			t.text(position{choice: choice, part: i, kind: KindText}, textOf(p.Text))
		}
	} else {
		t.text(position{choice: choice, kind: KindText}, textOf(m.Content))
	}
	t.text(position{choice: choice, kind: KindRefusal}, m.Refusal)
	for i, c := range m.Calls {
		name, arguments := c.read()
		at := position{choice: choice, item: 1 + i}
		if t.stream {
			at = t.streamed(choice, i, c)
		}
		t.call(at, c.ID, name, arguments)
	}
	if m.Call != nil {
		t.call(position{choice: choice}, "", m.Call.Name, textOf(m.Call.Arguments))
	}
}

// streamed returns the place of a piece of a call. Some servers number no call, or all alike: then another id begins
// another call. Without both, a second name may begin one too: clients differ.
func (t *tally) streamed(choice, i int, c toolCall) position {
	if c.Index != nil {
		i = *c.Index
	}
	at := position{choice: choice, item: 1 + i}
	for _, s := range slices.Backward(t.blocks) {
		if s.at.kind != KindCall || s.at.choice != choice || s.at.item != at.item {
			continue
		}
		at.part = s.at.part
		switch name, _ := c.read(); {
		case c.ID != "" && s.block.ID != "" && idOf(t.key, c.ID) != s.block.ID:
			at.part++
			t.doubt(c.Index != nil)
		case c.isNamed() && (c.ID == "" || s.block.ID == "" || c.Index == nil || name != s.block.Name):
			t.unclear = true
		}
		break
	}
	return at
}
