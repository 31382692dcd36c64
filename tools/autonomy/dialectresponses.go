package autonomy

import (
	"fmt"
	"strings"
)

// responsesDialect is the shape of the Responses API.
type responsesDialect struct{}

func (responsesDialect) asked(text string) string {
	return `{"type":"message","role":"user","content":` + quote(text) + `}`
}

// items are the items of an output, which the next request brings back.
func (responsesDialect) items(r reply) (out []string) {
	if r.thought != "" {
		out = append(out, `{"type":"reasoning","summary":[{"type":"summary_text","text":`+quote(r.thought)+`}]}`)
	}
	if r.text != "" {
		out = append(out, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":`+quote(r.text)+`}]}`)
	}
	for _, u := range r.uses {
		out = append(out,
			fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":%q,"arguments":%s}`, u.id, u.tool, quote(u.arguments)))
	}
	return out
}

func (w responsesDialect) said(r reply) []string { return w.items(r) }

func (responsesDialect) returned(all []result) (out []string) {
	for _, r := range all {
		out = append(out, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%s}`, r.id, quote(r.text)))
	}
	return out
}

func (responsesDialect) tools(names []string) string {
	return each(names, func(_ int, name string) string {
		return fmt.Sprintf(`{"type":"function","name":%q,"parameters":%s}`, name, anyObject)
	})
}

func (responsesDialect) request(t *conversation) string {
	options := ""
	if t.stream {
		options = `,"stream":true`
	}
	if t.system != "" {
		options += `,"instructions":` + quote(t.system)
	}
	return fmt.Sprintf(`{"model":%q,"input":%s%s%s}`, t.model, t.list(), t.offered(), options)
}

func (w responsesDialect) ended(id, model string, r reply, u usage) string {
	return fmt.Sprintf(
		`{"id":"resp_%s","object":"response","status":"completed","model":%q,"error":null,"output":[%s],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d}}}`,
		id, model, strings.Join(w.items(r), ","), u.input, u.cached, u.output, u.reasoning)
}

func (w responsesDialect) whole(id, model string, r reply, u usage) string {
	return w.ended(id, model, r, u)
}

func (w responsesDialect) events(id, model string, r reply, u usage, cut func(string) []string) []event {
	out := []event{
		sse(0, `{"type":"response.created","response":{"id":"resp_%s","model":%q,"status":"in_progress"}}`, id, model)}
	index := 0
	item := func(kind, member, start, text, done string) {
		out = append(out, sse(0, `{"type":"response.output_item.added","output_index":%d,"item":%s}`, index, start))
		for _, p := range cut(text) {
			out = append(out,
				sse(float64(len(p))/bytesPerToken, `{"type":%q,"output_index":%d,%q:0,"delta":%s}`, kind, index, member, quote(p)))
		}
		out = append(out, sse(0, `{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, done))
		index++
	}
	items := w.items(r)
	if r.thought != "" {
		item("response.reasoning_summary_text.delta", "summary_index", `{"type":"reasoning","summary":[]}`, r.thought,
			items[index])
	}
	if r.text != "" {
		item("response.output_text.delta", "content_index", `{"type":"message","role":"assistant","content":[]}`, r.text,
			items[index])
	}
	for _, use := range r.uses {
		item("response.function_call_arguments.delta", "item_index",
			fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":%q,"arguments":""}`, use.id, use.tool), use.arguments,
			items[index])
	}
	return append(out, sse(0, `{"type":"response.completed","response":%s}`, w.ended(id, model, r, u)))
}
