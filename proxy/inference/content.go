package inference

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

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

// fields are the members that an object may have in the APIs that give it a type. The first of them must be texts.
type fields struct {
	names []string
	texts int
}

var (
	itemFields = fields{[]string{"type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "name", "thinking",
		"refusal", "reasoning_content", "content", "text", "summary", "tool_name", "arguments", "input", "output",
		"result", "tools", "tool_calls", "function_call"}, 10}
	toolFields = fields{[]string{"type", "name", "execution", "function", "custom", "environment", "tools"}, 3}
)

// form says what an item, or a part of a message, is, and which members have its text, arguments or result, and the id
// of its call.
type form struct {
	kind     Kind
	text, id string
}

var (
	itemForms = map[string]form{
		"function_call":           {KindCall, "arguments", "call_id"},
		"custom_tool_call":        {KindCall, "input", "call_id"},
		"function_call_output":    {KindResult, "output", "call_id"},
		"custom_tool_call_output": {KindResult, "output", "call_id"},
	}
	partForms = map[string]form{
		"text":           {KindText, "text", ""},
		"input_text":     {KindText, "text", ""},
		"output_text":    {KindText, "text", ""},
		"summary_text":   {KindReasoning, "text", ""},
		"reasoning_text": {KindReasoning, "text", ""},
		"thinking":       {KindReasoning, "thinking", ""},
		"refusal":        {KindRefusal, "refusal", ""},
		"tool_use":       {KindCall, "input", "id"},
		"tool_result":    {KindResult, "content", "tool_use_id"},
	}
	keyedForms = map[string]form{
		"reasoningText": {KindReasoning, "text", ""},
		"functionCall":  {KindCall, "args", "id"},
		"toolUse":       {KindCall, "input", "toolUseId"},
		"toolResult":    {KindResult, "content", "toolUseId"},
	}
)

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
		r.fail(malformed("it has no messages; if it is another operation, have another rule name its path"))
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

func text(o jsonread.Object, name string) string {
	s, _ := o.Get(name).Text()
	return s
}

// typed reads an object with these fields; null has none. Servers that ignore case would act on what was not judged, so
// another spelling of a field is refused. others are the members that are no fields.
func (r *reading) typed(raw jsontext.Value, what string, of fields) (o, others jsonread.Object) {
	if raw.Kind() == 'n' {
		return nil, nil
	}
	o = r.object(raw, what)
	if has, meant, found := o.OtherCase(of.names...); found {
		r.fail(unreadable(fmt.Errorf("%w: it has the member %.60q, which some parsers take for %s", jsonread.ErrAmbiguous,
			has, meant), what))
	}
	for _, m := range o {
		i, kind := slices.Index(of.names, m.Name), m.Value.Kind()
		if i < 0 {
			others = append(others, m)
		} else if i < of.texts && kind != '"' && kind != 'n' {
			r.fail(unreadable(jsonread.ErrMalformed, what))
		}
	}
	return o, others
}

// item judges unknown members too: they may make the provider fetch, unless the item only reports earlier events.
func (r *reading) item(raw jsontext.Value, what string, known members.Classes) jsonread.Object {
	o, others := r.typed(raw, what, itemFields)
	kind := text(o, "type")
	if known[kind] == members.Past {
		return o
	}
	for _, m := range others {
		switch {
		case members.IsSource(m.Name):
			continue
		case m.Name == "audio" && r.Dialect == OpenAIChat: // of an earlier answer
			r.pointer(m)
		case m.Name == "images" && r.Dialect == OllamaChat:
			r.other(m.Value, members.NameOf(text(o, "role")), "")
		}
		r.fetched(m.Name, m.Value)
	}
	return o
}

func (r *reading) message(o jsonread.Object) {
	var calls list[toolCall]
	var call *named
	r.decode(o.Get("tool_calls").Value, "a message", &calls)
	r.decode(o.Get("function_call").Value, "a message", &call)
	by := text(o, "role")
	role := members.NameOf(by)
	r.said(role, KindReasoning, text(o, "reasoning_content"))
	r.said(role, KindReasoning, text(o, "thinking"))
	if r.Dialect != AnthropicMessages && (by == "tool" || by == "function") {
		id := text(o, "tool_call_id")
		if r.Dialect.namesNoCalls() {
			id = r.answered(id, members.NameOf(textOf(o.Get("tool_name").Value)))
		}
		r.result(o.Get("content").Value, id, role)
		return
	}
	r.parts(o.Get("content").Value, role)
	r.said(role, KindRefusal, text(o, "refusal"))
	if call != nil {
		calls = append(calls, toolCall{Function: call})
	}
	for _, c := range calls {
		name, arguments := c.read()
		r.call(role, c.ID, name, arguments)
	}
}

// said adds a text beside a message's content, if there is one.
func (r *reading) said(role string, kind Kind, text string) {
	if text != "" {
		r.add(Block{Role: role, Kind: kind}, []byte(text))
	}
}

func (r *reading) inputItem(raw jsontext.Value, o jsonread.Object) {
	kind, role := text(o, "type"), members.NameOf(text(o, "role"))
	class := r.known.Items[kind]
	switch {
	case class == members.State,
		kind == "image_generation_call" && text(o, "result") == "", // the id replaces it
		kind == "reasoning" && text(o, "encrypted_content") == "" && text(o, "id") != "":
		r.state(kind, text(o, "id"))
	case kind != "":
		r.judge(class, kind)
	case text(o, "role") == "":
		r.acts(Untyped)
	}
	switch kind {
	case "function_call", "custom_tool_call":
		r.form(itemForms[kind], o, "assistant")
	case "function_call_output", "custom_tool_call_output":
		r.form(itemForms[kind], o, "tool")
	case "message", "":
		r.parts(o.Get("content").Value, role)
	case "computer_call_output":
		r.other(raw, "tool", text(o, "call_id"))
		r.fetched("output", o.Get("output").Value)
	case "reasoning":
		r.parts(o.Get("summary").Value, "assistant")
		r.parts(o.Get("content").Value, "assistant")
	case "additional_tools", "tool_search_output":
		r.tools(o.Get("tools").Value, "", false)
	default:
		r.other(raw, role, text(o, "call_id"))
	}
}

func (r *reading) form(f form, o jsonread.Object, role string) {
	from := o.Get(f.text).Value
	switch f.kind {
	case KindCall:
		r.call(role, text(o, f.id), members.NameOf(text(o, "name")), textOf(from))
	case KindResult:
		r.result(from, text(o, f.id), role)
	default:
		r.add(Block{Role: role, Kind: f.kind}, unquoted(from))
	}
}

// call reads a call of a tool. Where the API may give calls no ids, clients make some, which no answer has.
func (r *reading) call(role, id, name, arguments string) {
	as, whole := id, canonical(arguments)
	if r.Dialect.namesNoCalls() {
		if !r.kept.Has(r.host, as) {
			id = callID(r.key, name, whole)
		}
		if len(r.open) < maxBlocks {
			r.open = append(r.open, open{id, as, name})
		}
	}
	r.add(Block{Role: role, Kind: KindCall, ID: idOf(r.key, id), Name: name}, []byte(whole))
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

func (r *reading) part(raw jsontext.Value, o jsonread.Object, role string) {
	kind := text(o, "type")
	r.judge(r.known.Parts[kind], cmp.Or(kind, Untyped))
	if f, known := partForms[kind]; known {
		r.form(f, o, role)
		return
	}
	r.other(raw, role, "")
	if r.known.Parts[kind] != members.Past {
		r.fetched("", raw)
	}
}

func (r *reading) other(raw jsontext.Value, role, id string) {
	r.add(Block{Role: role, Kind: KindOther, ID: idOf(r.key, id)}, raw)
}
