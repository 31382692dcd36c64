package autonomy

import "fmt"

// chatDialect is the shape of chat completions.
type chatDialect struct{}

func (chatDialect) asked(text string) string { return `{"role":"user","content":` + quote(text) + `}` }

func (w chatDialect) said(r reply) []string {
	m := `{"role":"assistant","content":` + quote(r.text)
	if len(r.uses) > 0 {
		m += `,"tool_calls":` + w.uses(r, false)
	}
	return []string{m + "}"}
}

func (chatDialect) uses(r reply, indexed bool) string {
	return each(r.uses, func(i int, u use) string {
		index := ""
		if indexed {
			index = fmt.Sprintf(`"index":%d,`, i)
		}
		return fmt.Sprintf(`{%s"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, index, u.id, u.tool,
			quote(u.arguments))
	})
}

func (chatDialect) returned(all []result) (out []string) {
	for _, r := range all {
		out = append(out, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, r.id, quote(r.text)))
	}
	return out
}

func (chatDialect) tools(names []string) string {
	return each(names, func(_ int, name string) string {
		return fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":%s}}`, name, anyObject)
	})
}

func (w chatDialect) request(t *conversation) string {
	messages := t.list()
	if t.system != "" {
		messages = `[{"role":"system","content":` + quote(t.system) + `},` + messages[1:]
	}
	options := ""
	if t.stream {
		options = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return fmt.Sprintf(`{"model":%q,"messages":%s%s%s}`, t.model, messages, t.offered(), options)
}

func (chatDialect) usage(u usage) string {
	return fmt.Sprintf(
		`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.input, u.output, u.input+u.output, u.cached, u.reasoning)
}

func finish(r reply) string {
	if len(r.uses) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func (w chatDialect) whole(id, model string, r reply, u usage) string {
	m := `{"role":"assistant","content":` + quote(r.text)
	if r.thought != "" {
		m += `,"reasoning_content":` + quote(r.thought)
	}
	if len(r.uses) > 0 {
		m += `,"tool_calls":` + w.uses(r, false)
	}
	return fmt.Sprintf(
		`{"id":"chatcmpl-%s","object":"chat.completion","model":%q,"choices":[{"index":0,"message":%s},"finish_reason":%q}],"usage":%s}`, id, model, m, finish(r), w.usage(u))
}

func (w chatDialect) events(id, model string, r reply, u usage, cut func(string) []string) (out []event) {
	delta := func(text, format string, args ...any) {
		out = append(out,
			sse(float64(len(text))/bytesPerToken, `{"id":"chatcmpl-%s","model":%q,"choices":[{"index":0,"delta":%s}]}`, id,
				model, fmt.Sprintf(format, args...)))
	}
	for _, p := range cut(r.thought) {
		delta(p, `{"reasoning_content":%s}`, quote(p))
	}
	for _, p := range cut(r.text) {
		delta(p, `{"content":%s}`, quote(p))
	}
	for i, use := range r.uses {
		delta(use.tool, `{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i,
			use.id, use.tool)
		for _, p := range cut(use.arguments) {
			delta(p, `{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(p))
		}
	}
	out = append(out,
		sse(0, `{"id":"chatcmpl-%s","model":%q,"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, id, model, finish(r)))
	return append(out, sse(0, `{"id":"chatcmpl-%s","model":%q,"choices":[],"usage":%s}`, id, model, w.usage(u)),
		event{"data: [DONE]\n\n", 0})
}
