package inference

import "github.com/go-json-experiment/json/jsontext"

type ollamaAnswer struct {
	Model   string         `json:"model"`
	Error   jsontext.Value `json:"error"` // a text
	Message struct {
		Content  string         `json:"content"`
		Thinking string         `json:"thinking"`
		Calls    list[toolCall] `json:"tool_calls"`
	} `json:"message"`
	Done   bool   `json:"done"`
	Stop   string `json:"done_reason"`
	Input  *int64 `json:"prompt_eval_count"`
	Output *int64 `json:"eval_count"`
}

// readOllama reads the same object whole, or in pieces.
func readOllama(t *tally, body []byte) bool {
	var a ollamaAnswer
	if !decode(t, body, &a) {
		return false
	}
	t.model(a.Model)
	if a.Error != nil && a.Error.Kind() != 'n' {
		t.ended = true
		t.failure(a.Error)
	}
	t.text(position{kind: KindReasoning}, a.Message.Thinking)
	t.text(position{kind: KindText}, a.Message.Content)
	for _, c := range a.Message.Calls {
		name, arguments := c.read()
		t.call(position{item: 1 + len(t.blocks)}, c.ID, name, arguments)
	}
	if a.Done {
		t.ended = true
		t.stop(0, a.Stop)
	}
	declare(&t.in.Input, a.Input)
	declare(&t.in.Output, a.Output)
	return true
}
