package inference

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/proxy/inference/members"
)

type responseEvent struct {
	Type     string         `json:"type"`
	Delta    string         `json:"delta"`
	Item     responseItem   `json:"item"`
	Response response       `json:"response"`
	Output   int            `json:"output_index"`
	Content  int            `json:"content_index"`
	Summary  int            `json:"summary_index"`
	Code     jsontext.Value `json:"code"`
	Error    jsontext.Value `json:"error"`
}

type response struct {
	ID         string         `json:"id"`
	Model      string         `json:"model"`
	Status     string         `json:"status"`
	Error      jsontext.Value `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output list[responseItem] `json:"output"`
	Usage  usage              `json:"usage"`
}

type responseItem struct {
	Type      string             `json:"type"`
	ID        string             `json:"id"`
	CallID    string             `json:"call_id"`
	Name      string             `json:"name"`
	Arguments jsontext.Value     `json:"arguments"`
	Input     jsontext.Value     `json:"input"`
	Content   list[responsePart] `json:"content"`
	Summary   list[responsePart] `json:"summary"`
}

type responsePart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`

	Annotations list[struct {
		FileID string `json:"file_id"`
	}] `json:"annotations"`
}

var hostedItems = []string{"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
	"mcp_call", "program"}

func readResponseEvent(t *tally, data []byte) bool {
	var e responseEvent
	if !decode(t, data, &e) {
		return false
	}
	switch e.Type {
	case "response.output_text.delta":
		t.text(position{item: e.Output, part: e.Content, kind: KindText}, e.Delta)
	case "response.refusal.delta":
		t.text(position{item: e.Output, part: e.Content, kind: KindRefusal}, e.Delta)
	case "response.reasoning_text.delta":
		t.text(position{item: e.Output, part: e.Content, kind: KindReasoning}, e.Delta)
	case "response.reasoning_summary_text.delta":
		t.text(position{item: e.Output, part: -1 - e.Summary, kind: KindReasoning}, e.Delta)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		t.call(position{item: e.Output}, "", "", e.Delta)
	case "response.output_item.added":
		e.Item.begin(t, e.Output)
	case "response.output_item.done":
		e.Item.end(t, e.Output)
	case "error":
		t.ended = true
		t.failure(data)
		if t.in.Error == "error" || e.Error.Kind() == '{' { // the event's own type
			t.in.Error = ""
			t.failure(e.Error)
		}
	case "response.created", "response.in_progress", "response.queued":
		t.model(e.Response.Model)
		t.made(e.Response.ID)
	case "response.completed", "response.incomplete", "response.failed":
		t.ended = true
		e.Response.repeats(t)
		if e.Type == "response.failed" { // clients ignore its status
			e.Response.Status = "failed"
		}
		e.Response.end(t)
	}
	return true
}

func readResponse(t *tally, body []byte) bool {
	var r response
	if !decode(t, body, &r) {
		return false
	}
	for i, o := range r.Output {
		o.begin(t, i)
		o.end(t, i)
	}
	r.end(t)
	return true
}

// isUncounted reports whether an item calls another tool that the agent may run.
func (o responseItem) isUncounted() bool {
	return slices.Contains(
		[]string{"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call"}, o.Type)
}

func (o responseItem) isCall() bool { return o.Type == "function_call" || o.Type == "custom_tool_call" }

func (o responseItem) begin(t *tally, i int) {
	t.made(o.ID)
	if slices.Contains(hostedItems, o.Type) {
		t.hosted++
	}
	t.doubt(o.isUncounted())
	if o.isCall() {
		t.doubt(t.has(position{item: i, kind: KindCall})) // of the same number: clients differ
		t.call(position{item: i}, o.CallID, o.Name, "")
	}
}

func (o responseItem) end(t *tally, i int) {
	t.made(o.ID)
	t.doubt(o.isUncounted())
	if o.isCall() {
		s := t.find(position{item: i, kind: KindCall})
		if s == nil {
			return
		}
		t.doubt(s.done || s.block.ID != "" && s.block.ID != idOf(t.key, o.CallID))
		s.done = true
		if s.block.Size == 0 {
			t.call(s.at, o.CallID, o.Name, o.given())
		}
		t.doubt(o.differs(s))
		return
	}
	for j, p := range o.Content {
		for _, a := range p.Annotations {
			t.made(a.FileID)
		}
		at := position{item: i, part: j, kind: KindText}
		switch p.Type {
		case "refusal":
			at.kind = KindRefusal
			p.Text = p.Refusal
		case "reasoning_text":
			at.kind = KindReasoning
		}
		t.unlessSaid(at, p.Text)
	}
	for j, p := range o.Summary {
		t.unlessSaid(position{item: i, part: -1 - j, kind: KindReasoning}, p.Text)
	}
}

func (o responseItem) given() string { return textOf(o.Arguments) + textOf(o.Input) }

// differs reports whether the item names another tool, or has other arguments, than the pieces of its call.
func (o responseItem) differs(s *said) bool {
	given := o.Arguments != nil || o.Input != nil
	return o.Name != "" && members.NameOf(o.Name) != s.block.Name ||
		given && !s.tooLarge && canonical(o.given()) != canonical(string(s.arguments))
}

func (t *tally) unlessSaid(at position, text string) {
	if !t.has(at) {
		t.text(at, text)
	}
}

// repeats compares the calls and texts of the complete response, if it has an output, with the stream's: clients go by
// one or the other.
func (r response) repeats(t *tally) {
	streamed, whole := make(map[string]int), make(map[string]int)
	for _, s := range t.blocks {
		switch s.at.kind {
		case KindCall:
			streamed[s.block.ID]++
			t.doubt(!s.done)
		case KindText, KindRefusal:
			streamed[string(s.mac.Sum(nil))]++
		}
	}
	if len(r.Output) == 0 {
		return
	}
	for _, o := range r.Output {
		t.made(o.ID) // some servers name an item anew
		t.doubt(o.isUncounted())
		if o.isCall() {
			id := idOf(t.key, o.CallID)
			whole[id]++
			i := slices.IndexFunc(t.blocks, func(s *said) bool { return s.at.kind == KindCall && s.block.ID == id })
			t.doubt(i >= 0 && o.differs(t.blocks[i]))
		}
		for _, p := range o.Content {
			if text := p.Text + p.Refusal; text != "" && p.Type != "reasoning_text" {
				hash := hashOf(t.key, KindText, []byte(text))
				whole[string(hash[:])]++
			}
		}
	}
	t.doubt(!maps.Equal(streamed, whole))
}

func (r response) end(t *tally) {
	t.model(r.Model)
	t.made(r.ID)
	r.Usage.declare(t.in)
	switch {
	case r.Error.Kind() == '{' || r.Status == "failed":
		t.failure(r.Error)
	case r.Status == "queued" || r.Status == "in_progress":
		t.in.Outcome = OutcomeUnfinished
	default:
		t.stop(0, cmp.Or(r.Incomplete.Reason, strings.TrimSpace(r.Status)))
	}
}
