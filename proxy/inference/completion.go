package inference

import (
	"github.com/go-json-experiment/json/jsontext"
)

// completion reads OpenAI's completions, and embeddings, which say nothing.
type completion struct{}

type completionAnswer struct {
	Model   string         `json:"model"`
	Error   jsontext.Value `json:"error"`
	Choices list[struct {
		Index  int    `json:"index"`
		Text   string `json:"text"`
		Finish string `json:"finish_reason"`
	}] `json:"choices"`
	Usage usage `json:"usage"`
}

func (c completion) event(t *tally, data []byte) bool {
	var a completionAnswer
	if !decode(t, data, &a) {
		return false
	}
	t.model(a.Model)
	if a.Error != nil && a.Error.Kind() != 'n' {
		t.failure(a.Error)
	}
	for _, choice := range a.Choices {
		t.text(position{choice: choice.Index, kind: KindText}, choice.Text)
		if choice.Finish != "" {
			t.stop(choice.Index, choice.Finish)
		}
	}
	a.Usage.declare(t.in)
	return true
}

func (c completion) whole(t *tally, body []byte) bool {
	t.ended = true
	return c.event(t, body)
}
