package inference

import (
	"bytes"
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// Kind is the kind of a [Block].
type Kind string

const (
	KindText      Kind = "text"
	KindRefusal   Kind = "refusal"   // the model refuses to answer
	KindReasoning Kind = "reasoning" // if the provider shows it
	KindCall      Kind = "call"      // a call of a tool that the agent runs
	KindResult    Kind = "result"    // the result of such a call
	KindOther     Kind = "other"     // images, files, and the work of the provider's own tools
)

// item has the members of messages, their parts and items of an input, in all dialects.
type item struct {
	Type       string         `json:"type"`
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	Text       jsontext.Value `json:"text"`
	Thinking   string         `json:"thinking"`
	Refusal    string         `json:"refusal"`
	Reasoning  string         `json:"reasoning_content"`
	Summary    jsontext.Value `json:"summary"`
	ID         string         `json:"id"`
	CallID     string         `json:"call_id"`
	ToolCallID string         `json:"tool_call_id"`
	ToolUseID  string         `json:"tool_use_id"`
	ToolName   jsontext.Value `json:"tool_name"`
	Name       string         `json:"name"`
	Arguments  jsontext.Value `json:"arguments"`
	Input      jsontext.Value `json:"input"`
	Output     jsontext.Value `json:"output"`
	Result     jsontext.Value `json:"result"`
	Tools      jsontext.Value `json:"tools"`
	Calls      list[toolCall] `json:"tool_calls"`
	Call       *named         `json:"function_call"`
}

type toolCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function *named `json:"function"`
	Custom   *named `json:"custom"`
}

type named struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Input     jsontext.Value `json:"input"`
}

func (c toolCall) isNamed() bool {
	return c.Function != nil && c.Function.Name != "" || c.Custom != nil && c.Custom.Name != ""
}

func (c toolCall) read() (name, arguments string) {
	if f := c.Function; f != nil {
		return members.NameOf(f.Name), textOf(f.Arguments)
	}
	if f := c.Custom; f != nil {
		return members.NameOf(f.Name), textOf(f.Input)
	}
	return "", ""
}

func textOf(v jsontext.Value) string { return string(unquoted(v)) }

// unquoted is textOf, but returns a part of the value if possible.
func unquoted(v jsontext.Value) []byte {
	switch v.Kind() {
	case '"':
		if end := len(v) - 1; v[0] == '"' && v[end] == '"' && bytes.IndexByte(v, '\\') < 0 {
			return v[1:end]
		}
		raw, err := jsontext.AppendUnquote(make([]byte, 0, len(v)), v)
		if err != nil {
			return nil
		}
		return raw
	case 'n', jsontext.KindInvalid:
		return nil
	}
	return v
}

// canonical makes streamed arguments equal those that the agent sends back.
func canonical(arguments string) string {
	if arguments == "" { // how a stream has an empty object
		return "{}"
	}
	v := jsontext.Value(bytes.Clone([]byte(arguments)))
	if v.Canonicalize() != nil {
		return arguments
	}
	return string(v)
}

func (r *reading) content(top jsonread.Object) {
	switch r.Dialect {
	case Gemini:
		r.gemini(top)
	case BedrockConverse:
		r.converse(top)
	case OpenAIEmbeddings:
		r.inputs(top.Get("input").Value)
	case OpenAICompletions:
		r.inputs(top.Get("prompt").Value)
		r.inputs(top.Get("suffix").Value)
	case OpenAIResponses:
		r.parts(top.Get("instructions").Value, "system")
		said := top.Get("input").Value
		if said == nil || said.Kind() == '"' {
			r.parts(said, "user")
		} else {
			r.messages(said)
		}
	default:
		r.parts(top.Get("system").Value, "system")
		r.messages(top.Get("messages").Value)
	}
}

func (r *reading) messages(said jsontext.Value) {
	if said == nil {
		r.fail(malformed("it has no messages"))
	}
	r.each(said, "the list of messages", func(raw jsontext.Value) {
		switch {
		case r.keyed():
			r.keyedMessage(raw, "")
		case r.Dialect == OpenAIResponses:
			r.inputItem(raw, r.item(raw, "a message", r.known.Items))
		default:
			r.message(r.item(raw, "a message", r.known.Items))
		}
	})
}

// inputs reads texts, or tokens, which are numbers.
func (r *reading) inputs(v jsontext.Value) {
	if v.Kind() != '[' {
		r.parts(v, "user")
		return
	}
	r.each(v, "the input", func(raw jsontext.Value) {
		if raw.Kind() == '"' {
			r.parts(raw, "user")
			return
		}
		r.other(raw, "user", "")
		r.fetched("", raw)
	})
}

// item judges unknown members too: they may make the provider fetch, unless the item only reports earlier events.
func (r *reading) item(raw jsontext.Value, what string, known members.Classes) (it item) {
	others := decodeObject(r, raw, what, &it)
	if known[it.Type] == members.Past {
		return it
	}
	for _, m := range others {
		switch {
		case members.IsSource(m.Name):
			continue
		case m.Name == "audio" && r.Dialect == OpenAIChat && it.Type == "": // of an earlier answer
			r.pointer(m)
		case m.Name == "images" && r.Dialect == OllamaChat:
			r.other(m.Value, members.NameOf(it.Role), "")
		}
		r.fetched(m.Name, m.Value)
	}
	return it
}

func (r *reading) message(it item) {
	role := members.NameOf(it.Role)
	if it.Reasoning != "" {
		r.add(Block{Role: role, Kind: KindReasoning}, []byte(it.Reasoning))
	}
	if it.Thinking != "" {
		r.add(Block{Role: role, Kind: KindReasoning}, []byte(it.Thinking))
	}
	if r.Dialect != AnthropicMessages && (it.Role == "tool" || it.Role == "function") {
		id := it.ToolCallID
		if r.Dialect.namesNoCalls() {
			id = r.answered(id, members.NameOf(textOf(it.ToolName)))
		}
		r.result(it.Content, id, role)
		return
	}
	r.parts(it.Content, role)
	if it.Refusal != "" {
		r.add(Block{Role: role, Kind: KindRefusal}, []byte(it.Refusal))
	}
	if it.Call != nil {
		it.Calls = append(it.Calls, toolCall{Function: it.Call})
	}
	for _, c := range it.Calls {
		name, arguments := c.read()
		if r.Dialect.namesNoCalls() {
			r.unnamedCall(role, c.ID, name, arguments)
			continue
		}
		r.call(role, c.ID, name, arguments)
	}
}

func (r *reading) call(role, id, name, arguments string) {
	r.add(Block{Role: role, Kind: KindCall, ID: idOf(r.key, id), Name: name}, []byte(canonical(arguments)))
}

func (r *reading) inputItem(raw jsontext.Value, it item) {
	role := members.NameOf(it.Role)
	class := r.known.Items[it.Type]
	switch {
	case class == members.State, it.Type == "image_generation_call" && textOf(it.Result) == "": // the id replaces it
		r.state(it.Type, it.ID)
	case it.Type != "":
		r.judge(class, it.Type)
	case it.Role == "":
		r.acts(Untyped)
	}
	switch it.Type {
	case "message", "":
		r.parts(it.Content, role)
	case "function_call":
		r.call("assistant", it.CallID, members.NameOf(it.Name), textOf(it.Arguments))
	case "custom_tool_call":
		r.call("assistant", it.CallID, members.NameOf(it.Name), textOf(it.Input))
	case "function_call_output", "custom_tool_call_output":
		r.result(it.Output, it.CallID, "tool")
	case "computer_call_output":
		r.other(raw, "tool", it.CallID)
		r.fetched("output", it.Output)
	case "reasoning":
		r.parts(it.Summary, "assistant")
		r.parts(it.Content, "assistant")
	case "additional_tools", "tool_search_output":
		r.tools(it.Tools, "")
	default:
		r.other(raw, role, it.CallID)
	}
}

// result reads the content of a call's result.
func (r *reading) result(v jsontext.Value, id, role string) {
	if r.answers != nil {
		r.fail(malformed("a result contains another one"))
		return
	}
	id = idOf(r.key, id)
	r.answers = &id
	r.parts(v, role)
	r.answers = nil
}

func (r *reading) parts(v jsontext.Value, role string) {
	switch {
	case v.Kind() == 'n' || v == nil:
	case r.keyed():
		r.keyedParts(v, role)
	case v.Kind() == '"':
		r.add(Block{Role: role, Kind: KindText}, unquoted(v))
	default:
		r.each(v, "the content of a message", func(raw jsontext.Value) {
			if raw.Kind() == '"' {
				r.add(Block{Role: role, Kind: KindText}, unquoted(raw))
			} else {
				r.part(raw, r.item(raw, "a part of a message", r.known.Parts), role)
			}
		})
	}
}

func (r *reading) part(raw jsontext.Value, it item, role string) {
	r.judge(r.known.Parts[it.Type], cmp.Or(it.Type, Untyped))
	switch it.Type {
	case "text", "input_text", "output_text":
		r.add(Block{Role: role, Kind: KindText}, unquoted(it.Text))
	case "summary_text", "reasoning_text":
		r.add(Block{Role: role, Kind: KindReasoning}, unquoted(it.Text))
	case "thinking":
		r.add(Block{Role: role, Kind: KindReasoning}, []byte(it.Thinking))
	case "refusal":
		r.add(Block{Role: role, Kind: KindRefusal}, []byte(it.Refusal))
	case "tool_use":
		r.call(role, it.ID, members.NameOf(it.Name), textOf(it.Input))
	case "tool_result":
		r.result(it.Content, it.ToolUseID, role)
	default:
		r.other(raw, role, "")
		if r.known.Parts[it.Type] != members.Past {
			r.fetched("", raw)
		}
	}
}

func (r *reading) other(raw jsontext.Value, role, id string) {
	r.add(Block{Role: role, Kind: KindOther, ID: idOf(r.key, id)}, raw)
}
