package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// model is a stand-in for the APIs of models. It has each agent post a note, then delete one, and says at the end
// whether it has read why that was refused. It has an agent that posts comments use all its tools in learnt.
type model struct {
	mu    sync.Mutex
	calls map[string]int  // by host and path
	kept  map[string]turn // what a thread of messages had before an answer, by the answer's id
}

// turn is what a request tells.
type turn struct {
	Name    string
	Tools   []string
	Results []string // of tools, in order
	Stream  bool
	Scripts bool   // the tools are called by a script, as in Codex
	Space   string // of the tools, if any
}

const (
	read   = "THE MODEL HAS READ THE REFUSAL"
	unread = "THE MODEL HAS NOT READ THE REFUSAL"
)

// next returns the tool to call, or the text to answer with.
func (t turn) next() (tool, text string) {
	named := func(suffix string) string {
		for _, name := range t.Tools {
			if strings.HasSuffix(name, suffix) {
				return name
			}
		}
		return ""
	}
	plan := []string{"post_note", "delete_note"}
	learns := named("post_comment") != ""
	if learns {
		plan = learnt
	}
	for i, name := range plan {
		if !t.Scripts {
			name = named(name)
		}
		if name == "" {
			return "", "there is no tool " + plan[i]
		}
		if i == len(t.Results) {
			return name, ""
		}
	}
	if learns {
		return "", strings.Join(t.Results, "\n")
	}
	last := t.Results[len(t.Results)-1]
	if strings.Contains(last, "action_unmatched") && strings.Contains(last, "Add an action rule") {
		return "", read
	}
	return "", unread + ": " + last
}

// arguments are those of every tool.
const arguments = `{"text":"hello","message":"hello"}`

// learnt are the tools of the agent in TestLearn.
var learnt = []string{"list_parts", "read_site", "post_note", "issue_read", "echo", "post_comment"}

// calling has Codex call a tool of an MCP server.
const calling = `try {
  const name = ALL_TOOLS.find((t) => t.name.endsWith("%s")).name;
  text(await tools[name](%s));
} catch (e) { text(String(e)); }`

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	if m.calls == nil {
		m.calls = make(map[string]int)
	}
	m.calls[r.Host+r.URL.Path]++
	m.mu.Unlock()
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/messages"):
		m.messages(w, raw)
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/chat/completions"):
		chat(w, raw)
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/responses"):
		responses(w, raw)
	case r.Method == http.MethodPost && strings.Contains(path, "enerateContent"):
		gemini(w, raw, strings.Contains(path, ":stream"))
	default:
		http.NotFound(w, r)
	}
}

// heard returns what a request in any dialect tells, and the request.
func heard(raw []byte) (t turn, ask object) {
	_ = json.Unmarshal(raw, &ask)
	t.Name, _ = ask["model"].(string)
	t.Stream, _ = ask["stream"].(bool)
	t.Scripts = bytes.Contains(raw, []byte(`"additional_tools"`)) && bytes.Contains(raw, []byte(`"exec"`))
	each(ask["tools"], func(o object) {
		name, ok := o["name"].(string)
		if ok {
			t.Tools = append(t.Tools, name)
		}
		if o["tools"] != nil {
			t.Space = name
		}
	})
	each([]any{ask["messages"], ask["input"], ask["contents"]}, func(o object) {
		response, _ := o["functionResponse"].(object)
		switch {
		case o["type"] == "tool_result", o["role"] == "tool":
			t.Results = append(t.Results, text(o["content"]))
		case o["type"] == "function_call_output", o["type"] == "custom_tool_call_output":
			t.Results = append(t.Results, text(o["output"]))
		case response != nil:
			t.Results = append(t.Results, text(response["response"]))
		}
	})
	return t, ask
}

// each visits all objects in a value, the outer first.
func each(value any, visit func(object)) {
	switch v := value.(type) {
	case object:
		visit(v)
		for _, inner := range v {
			each(inner, visit)
		}
	case []any:
		for _, inner := range v {
			each(inner, visit)
		}
	}
}

func text(value any) (all string) {
	if s, ok := value.(string); ok {
		return s
	}
	each(value, func(o object) {
		if part, ok := o["text"].(string); ok {
			all += part
		}
	})
	if all == "" {
		raw, _ := json.Marshal(value)
		all = string(raw)
	}
	return all
}

type events struct{ w http.ResponseWriter }

func (e events) send(name string, v any) {
	raw, _ := json.Marshal(v)
	if name != "" {
		fmt.Fprintf(e.w, "event: %s\n", name)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", raw)
	_ = http.NewResponseController(e.w).Flush()
}

func begin(w http.ResponseWriter, stream bool) events {
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	return events{w}
}

type object = map[string]any

func (m *model) messages(w http.ResponseWriter, raw []byte) {
	t, ask := heard(raw)
	thread, _ := ask["thread"].(object)
	previous, _ := thread["previous_message_id"].(string)
	m.mu.Lock()
	before := m.kept[previous]
	m.mu.Unlock()
	t.Tools, t.Results = slices.Concat(before.Tools, t.Tools), slices.Concat(before.Results, t.Results)
	m.mu.Lock()
	if m.kept == nil {
		m.kept = make(map[string]turn)
	}
	id := fmt.Sprintf("msg_%d", len(m.kept))
	m.kept[id] = t
	m.mu.Unlock()
	tool, answer := t.next()
	reason, block := "end_turn", object{"type": "text", "text": answer}
	if tool != "" {
		reason = "tool_use"
		block = object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", len(t.Results)), "name": tool,
			"input": json.RawMessage(arguments)}
	}
	e := begin(w, t.Stream)
	if !t.Stream {
		_ = json.NewEncoder(w).Encode(object{"id": id, "type": "message", "role": "assistant", "model": t.Name,
			"content": []any{block}, "stop_reason": reason, "stop_sequence": nil,
			"usage": object{"input_tokens": 11, "output_tokens": 7}})
		return
	}
	e.send("message_start", object{"type": "message_start", "message": object{"id": id, "type": "message",
		"role": "assistant", "model": t.Name, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": 11, "output_tokens": 1}}})
	start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": answer}
	if tool != "" {
		start = object{"type": "tool_use", "id": block["id"], "name": tool, "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": arguments}
	}
	e.send("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": start})
	e.send("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
	e.send("content_block_stop", object{"type": "content_block_stop", "index": 0})
	e.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": 7}})
	e.send("message_stop", object{"type": "message_stop"})
}

func chat(w http.ResponseWriter, raw []byte) {
	t, _ := heard(raw)
	tool, answer := t.next()
	reason, message := "stop", object{"role": "assistant", "content": answer}
	if tool != "" {
		reason = "tool_calls"
		message = object{"role": "assistant", "content": nil, "tool_calls": []any{object{"index": 0,
			"id": fmt.Sprintf("call_%d", len(t.Results)), "type": "function",
			"function": object{"name": tool, "arguments": arguments}}}}
	}
	usage := object{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
	whole := object{"id": fmt.Sprintf("chatcmpl-%d", len(t.Results)), "object": "chat.completion", "created": 1,
		"model": t.Name}
	e := begin(w, t.Stream)
	if !t.Stream {
		whole["choices"] = []any{object{"index": 0, "message": message, "finish_reason": reason}}
		whole["usage"] = usage
		_ = json.NewEncoder(w).Encode(whole)
		return
	}
	whole["object"] = "chat.completion.chunk"
	whole["choices"] = []any{object{"index": 0, "delta": message, "finish_reason": nil}}
	e.send("", whole)
	whole["choices"] = []any{object{"index": 0, "delta": object{}, "finish_reason": reason}}
	e.send("", whole)
	whole["choices"], whole["usage"] = []any{}, usage
	e.send("", whole)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func responses(w http.ResponseWriter, raw []byte) {
	t, _ := heard(raw)
	tool, answer := t.next()
	item := object{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": answer, "annotations": []any{}}}}
	if tool != "" {
		id := fmt.Sprintf("call_%d", len(t.Results))
		item = object{"id": "fc_" + id, "type": "function_call", "status": "completed", "call_id": id, "name": tool,
			"arguments": arguments}
		if t.Space != "" {
			item["namespace"] = t.Space
		}
		if t.Scripts {
			item = object{"id": "ctc_" + id, "type": "custom_tool_call", "status": "completed", "call_id": id, "name": "exec",
				"namespace": "functions", "input": fmt.Sprintf(calling, tool, arguments)}
		}
	}
	// a client that leaves state at the provider refers to this item, instead of sending it
	thought := object{"id": fmt.Sprintf("rs_%d", len(t.Results)), "type": "reasoning", "summary": []any{}}
	whole := object{"id": "resp_1", "object": "response", "created_at": 1, "model": t.Name, "status": "completed",
		"output": []any{thought, item}, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "error": nil,
		"incomplete_details": nil, "instructions": nil, "metadata": object{},
		"usage": object{"input_tokens": 11, "output_tokens": 7, "total_tokens": 18,
			"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}}
	e := begin(w, t.Stream)
	if !t.Stream {
		_ = json.NewEncoder(w).Encode(whole)
		return
	}
	number := 0
	send := func(name string, v object) {
		v["type"], v["sequence_number"] = name, number
		number++
		e.send(name, v)
	}
	empty := object{}
	for k, v := range whole {
		empty[k] = v
	}
	empty["status"], empty["output"], empty["usage"] = "in_progress", []any{}, nil
	send("response.created", object{"response": empty})
	begun := object{}
	for k, v := range item {
		begun[k] = v
	}
	begun["status"] = "in_progress"
	switch {
	case t.Scripts && tool != "":
		begun["input"] = ""
	case tool != "":
		begun["arguments"] = ""
	default:
		begun["content"] = []any{}
	}
	for _, kind := range []string{"added", "done"} {
		send("response.output_item."+kind, object{"output_index": 0, "item": thought})
	}
	send("response.output_item.added", object{"output_index": 1, "item": begun})
	switch {
	case t.Scripts && tool != "":
		send("response.custom_tool_call_input.delta",
			object{"output_index": 1, "item_id": item["id"], "delta": item["input"]})
	case tool != "":
		send("response.function_call_arguments.delta", object{"output_index": 1, "item_id": item["id"], "delta": arguments})
		send("response.function_call_arguments.done",
			object{"output_index": 1, "item_id": item["id"], "name": tool, "arguments": arguments})
	default:
		part := object{"type": "output_text", "text": "", "annotations": []any{}}
		at := func(more object) object {
			more["output_index"], more["content_index"], more["item_id"] = 1, 0, "msg_1"
			return more
		}
		send("response.content_part.added", at(object{"part": part}))
		send("response.output_text.delta", at(object{"delta": answer, "logprobs": []any{}}))
		send("response.output_text.done", at(object{"text": answer, "logprobs": []any{}}))
		send("response.content_part.done",
			at(object{"part": object{"type": "output_text", "text": answer, "annotations": []any{}}}))
	}
	send("response.output_item.done", object{"output_index": 1, "item": item})
	send("response.completed", object{"response": whole})
}

func gemini(w http.ResponseWriter, raw []byte, stream bool) {
	t, ask := heard(raw)
	tool, answer := t.next()
	// Gemini CLI first asks which model to take
	if config, _ := ask["generationConfig"].(object); config["responseMimeType"] == "application/json" {
		tool, answer = "", `{"complexity_reasoning":"two calls","complexity_score":50}`
	}
	part := object{"text": answer}
	if tool != "" {
		part = object{"functionCall": object{"name": tool, "args": json.RawMessage(arguments)}}
	}
	whole := object{"candidates": []any{object{"index": 0, "finishReason": "STOP",
		"content": object{"role": "model", "parts": []any{part}}}},
		"usageMetadata": object{"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
		"modelVersion":  "gemini-test", "responseId": "r1"}
	e := begin(w, stream)
	if !stream {
		_ = json.NewEncoder(w).Encode(whole)
		return
	}
	e.send("", whole)
}
