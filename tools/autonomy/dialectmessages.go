package autonomy

import (
	"fmt"
	"strings"
)

// messagesDialect is the shape of the Messages API.
type messagesDialect struct{}

func (messagesDialect) asked(text string) string {
	return `{"role":"user","content":` + quote(text) + `}`
}

// parts are the blocks of an answer.
func (messagesDialect) parts(r reply) string {
	var parts []string
	if r.thought != "" {
		parts = append(parts, `{"type":"thinking","thinking":`+quote(r.thought)+`,"signature":"c2ln"}`)
	}
	if r.text != "" {
		parts = append(parts, `{"type":"text","text":`+quote(r.text)+`}`)
	}
	for _, u := range r.uses {
		parts = append(parts, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, u.id, u.tool, u.arguments))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (w messagesDialect) said(r reply) []string {
	return []string{`{"role":"assistant","content":` + w.parts(r) + `}`}
}

func (messagesDialect) returned(all []result) []string {
	return []string{`{"role":"user","content":` + each(all, func(_ int, r result) string {
		return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s}`, r.id, quote(r.text))
	}) + `}`}
}

func (messagesDialect) tools(names []string) string {
	return each(names, func(_ int, name string) string {
		return fmt.Sprintf(`{"name":%q,"input_schema":%s}`, name, anyObject)
	})
}

func (messagesDialect) request(t *conversation) string {
	options := ""
	if t.stream {
		options = `,"stream":true`
	}
	if t.system != "" {
		options += `,"system":` + quote(t.system)
	}
	return fmt.Sprintf(`{"model":%q,"max_tokens":16000,"messages":%s%s%s}`, t.model, t.list(), t.offered(), options)
}

func stopReason(r reply) string {
	if len(r.uses) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (messagesDialect) inputs(u usage) string {
	return fmt.Sprintf(`"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":0`, u.input-u.cached,
		u.cached)
}

func (w messagesDialect) whole(id, model string, r reply, u usage) string {
	return fmt.Sprintf(
		`{"id":"msg_%s","type":"message","role":"assistant","model":%q,"content":%s,"stop_reason":%q,"usage":{%s,"output_tokens":%d}}`,
		id, model, w.parts(r), stopReason(r), w.inputs(u), u.output)
}

func (w messagesDialect) events(id, model string, r reply, u usage, cut func(string) []string) []event {
	out := []event{
		sse(0,
			`{"type":"message_start","message":{"id":"msg_%s","type":"message","role":"assistant","model":%q,"content":[],"usage":{%s,"output_tokens":1}}}`, id, model, w.inputs(u))}
	index := 0
	block := func(start, delta, member, text string) {
		out = append(out, sse(0, `{"type":"content_block_start","index":%d,"content_block":%s}`, index, start))
		for _, p := range cut(text) {
			out = append(out,
				sse(float64(len(p))/bytesPerToken, `{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, index,
					delta, member, quote(p)))
		}
		out = append(out, sse(0, `{"type":"content_block_stop","index":%d}`, index))
		index++
	}
	if r.thought != "" {
		block(`{"type":"thinking","thinking":""}`, "thinking_delta", "thinking", r.thought)
	}
	if r.text != "" {
		block(`{"type":"text","text":""}`, "text_delta", "text", r.text)
	}
	for _, use := range r.uses {
		block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, use.id, use.tool), "input_json_delta",
			"partial_json", use.arguments)
	}
	return append(out,
		sse(0, `{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":%d}}`, stopReason(r), u.output),
		sse(0, `{"type":"message_stop"}`))
}
