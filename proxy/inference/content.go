package inference

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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
	Name       string         `json:"name"`
	Arguments  jsontext.Value `json:"arguments"`
	Input      jsontext.Value `json:"input"`
	Output     jsontext.Value `json:"output"`
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
		return nameOf(f.Name), textOf(f.Arguments)
	}
	if f := c.Custom; f != nil {
		return nameOf(f.Name), textOf(f.Input)
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

func (r *reading) content(top jsonread.Object) error {
	said, instructions := top.Get("messages").Value, top.Get("system").Value
	if r.Dialect == OpenAIResponses {
		said, instructions = top.Get("input").Value, top.Get("instructions").Value
	}
	if err := r.parts(instructions, "system"); err != nil {
		return err
	}
	if r.Dialect == OpenAIResponses && (said == nil || said.Kind() == '"') {
		return r.parts(said, "user")
	}
	if said == nil {
		return malformed("it has no messages")
	}
	return each(said, "the list of messages", func(raw jsontext.Value) error {
		it, err := r.item(raw, "a message", pastItems)
		switch {
		case err != nil:
			return err
		case r.Dialect == OpenAIResponses:
			return r.inputItem(raw, it)
		}
		return r.message(it)
	})
}

// item judges unknown members too: they may make the provider fetch something, unless the type is one of past, which
// only report earlier events.
func (r *reading) item(raw jsontext.Value, what string, past []string) (it item, err error) {
	others, err := decodeObject(raw, &it, what)
	if err != nil || slices.Contains(past, it.Type) {
		return it, err
	}
	for _, m := range others {
		if slices.Contains(sources, m.Name) {
			continue
		}
		if err := r.fetched(m.Name, m.Value); err != nil {
			return it, err
		}
	}
	return it, nil
}

func (r *reading) message(it item) error {
	role := nameOf(it.Role)
	if it.Reasoning != "" {
		r.add(Block{Role: role, Kind: KindReasoning}, []byte(it.Reasoning))
	}
	if r.Dialect == OpenAIChat && (it.Role == "tool" || it.Role == "function") {
		return r.result(it.Content, it.ToolCallID, role)
	}
	if err := r.parts(it.Content, role); err != nil {
		return err
	}
	if it.Refusal != "" {
		r.add(Block{Role: role, Kind: KindRefusal}, []byte(it.Refusal))
	}
	if it.Call != nil {
		it.Calls = append(it.Calls, toolCall{Function: it.Call})
	}
	for _, c := range it.Calls {
		name, arguments := c.read()
		r.call(role, c.ID, name, arguments)
	}
	return nil
}

func (r *reading) call(role, id, name, arguments string) {
	r.add(Block{Role: role, Kind: KindCall, ID: idOf(r.key, id), Name: name}, []byte(canonical(arguments)))
}

// pastItems report the past, and make the provider do nothing.
var pastItems = strings.Fields(`
	computer_call local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call
	apply_patch_call_output tool_search_call compaction compaction_trigger configuration_update
	image_generation_call code_interpreter_call file_search_call web_search_call mcp_list_tools mcp_call
	mcp_approval_request`)

func (r *reading) inputItem(raw jsontext.Value, it item) error {
	role := nameOf(it.Role)
	switch it.Type {
	case "message", "":
		if it.Role == "" {
			return r.hosted(Untyped)
		}
		return r.parts(it.Content, role)
	case "function_call":
		r.call("assistant", it.CallID, nameOf(it.Name), textOf(it.Arguments))
	case "custom_tool_call":
		r.call("assistant", it.CallID, nameOf(it.Name), textOf(it.Input))
	case "function_call_output", "custom_tool_call_output":
		return r.result(it.Output, it.CallID, "tool")
	case "computer_call_output":
		r.other(raw, "tool", it.CallID)
		return r.fetched("output", it.Output)
	case "reasoning":
		if err := r.parts(it.Summary, "assistant"); err != nil {
			return err
		}
		return r.parts(it.Content, "assistant")
	case "additional_tools", "tool_search_output":
		return r.tools(it.Tools, "")
	default:
		if !slices.Contains(pastItems, it.Type) {
			return r.hosted(it.Type)
		}
		r.other(raw, role, it.CallID)
	}
	return nil
}

func (r *reading) result(v jsontext.Value, id, role string) error {
	if r.answers != nil {
		return malformed("a result contains another one")
	}
	id = idOf(r.key, id)
	r.answers = &id
	defer func() { r.answers = nil }()
	return r.parts(v, role)
}

func (r *reading) parts(v jsontext.Value, role string) error {
	switch v.Kind() {
	case 'n', jsontext.KindInvalid:
		return nil
	case '"':
		r.add(Block{Role: role, Kind: KindText}, unquoted(v))
		return nil
	}
	return each(v, "the content of a message", func(raw jsontext.Value) error {
		if raw.Kind() == '"' {
			r.add(Block{Role: role, Kind: KindText}, unquoted(raw))
			return nil
		}
		it, err := r.item(raw, "a part of a message", pastParts)
		if err != nil {
			return err
		}
		return r.part(raw, it, role)
	})
}

// pastParts hold URLs that the provider does not fetch: work of its own tools, and sources.
var pastParts = strings.Fields(`
	server_tool_use web_search_tool_result web_fetch_tool_result code_execution_tool_result
	bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result mcp_tool_use
	mcp_tool_result search_result tool_reference redacted_thinking compaction`)

func (r *reading) part(raw jsontext.Value, it item, role string) error {
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
		r.call(role, it.ID, nameOf(it.Name), textOf(it.Input))
	case "tool_result":
		return r.result(it.Content, it.ToolUseID, role)
	default:
		r.other(raw, role, "")
		if !slices.Contains(pastParts, it.Type) {
			return r.fetched("", raw)
		}
	}
	return nil
}

func (r *reading) other(raw jsontext.Value, role, id string) {
	r.add(Block{Role: role, Kind: KindOther, ID: idOf(r.key, id)}, raw)
}
