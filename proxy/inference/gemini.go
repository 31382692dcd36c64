package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

type geminiAnswer struct {
	ID         string                `json:"responseId"`
	Model      string                `json:"modelVersion"`
	Error      jsontext.Value        `json:"error"`
	Candidates list[geminiCandidate] `json:"candidates"`
	Prompt     struct {
		Blocked string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage googleUsage `json:"usageMetadata"`
}

type geminiCandidate struct {
	Index   int    `json:"index"`
	Finish  string `json:"finishReason"`
	Content struct {
		Parts list[geminiPart] `json:"parts"`
	} `json:"content"`
}

type geminiPart struct {
	Text    string         `json:"text"`
	Thought bool           `json:"thought"`
	Code    jsontext.Value `json:"executableCode"`
	Hosted  jsontext.Value `json:"toolCall"`
	Call    *struct {
		ID        string         `json:"id"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"args"`
		Pieces    jsontext.Value `json:"partialArgs"`
	} `json:"functionCall"`
}

// readGeminiWhole reads an answer, or the list of chunks that a stream without server-sent events is.
func readGeminiWhole(t *tally, body []byte) bool {
	if jsontext.Value(body).Kind() != '[' {
		return readGemini(t, body) && (t.ended || len(t.blocks) > 0) // a count of tokens is no answer
	}
	var chunks list[jsontext.Value]
	return decode(t, body, &chunks) &&
		!slices.ContainsFunc(chunks, func(c jsontext.Value) bool { return !readGemini(t, c) })
}

// readGemini finds no event for the end of a stream: the last chunk of a candidate has the reason why it ended.
func readGemini(t *tally, data []byte) bool {
	var a geminiAnswer
	if !decode(t, data, &a) {
		return false
	}
	t.model(a.Model)
	if a.Error.Kind() == '{' {
		t.ended = true
		t.failure(a.Error)
	}
	for _, c := range a.Candidates {
		for _, p := range c.Content.Parts {
			p.read(t, c.Index)
		}
		if c.Finish != "" {
			t.stop(c.Index, c.Finish)
			t.ended = true
		}
	}
	if a.Prompt.Blocked != "" {
		t.stop(0, a.Prompt.Blocked)
		t.ended = true
	}
	a.Usage.declare(t.in)
	return true
}

// read continues the candidate's last block, or begins one. Clients join neighbouring texts of one kind.
func (p geminiPart) read(t *tally, choice int) {
	kind := KindText
	if p.Thought {
		kind = KindReasoning
	}
	at := position{choice: choice, kind: kind}
	for _, s := range t.blocks {
		if s.at.choice == choice {
			at.item = s.at.item + 1
			if s.at.kind == kind && p.Call == nil {
				at.item = s.at.item
			}
		}
	}
	t.doubt(p.Text != "" && (p.Call != nil || p.Code != nil || p.Hosted != nil)) // clients take both
	switch {
	case p.Call != nil:
		t.doubt(p.Call.Pieces != nil)
		t.call(at, p.Call.ID, p.Call.Name, textOf(p.Call.Arguments))
	case p.Code != nil || p.Hosted != nil:
		t.hosted++
	default:
		t.text(at, p.Text)
	}
}
