package autonomy

import (
	"encoding/json"
	"fmt"
	"strings"
)

// use is a model's tool call, with its arguments as JSON.
type use struct{ id, tool, arguments string }

// result is the result of a tool call.
type result struct{ id, text string }

// reply is a model's answer.
type reply struct {
	thought string // if the provider shows it
	text    string
	uses    []use
	hidden  int // tokens of reasoning that are not shown
}

// size returns the bytes of the reply.
func (r reply) size() int {
	n := len(r.thought) + len(r.text)
	for _, u := range r.uses {
		n += len(u.tool) + len(u.arguments)
	}
	return n
}

// usage is the token counts that a provider declares.
type usage struct{ input, cached, output, reasoning int }

// event is an event of a stream with its number of tokens.
type event struct {
	data   string
	tokens float64
}

// conversation is an agent's copy of a conversation, as chat completions have it.
type conversation struct {
	model    string
	system   string
	offers   string // tools
	stream   bool
	most     int // messages kept; older ones are summarized
	messages []string
}

func newConversation(m *model, system string, tools []string, stream bool) *conversation {
	t := &conversation{model: m.name, system: system, stream: stream, most: 40}
	if len(tools) > 0 {
		t.offers = offersOf(tools)
	}
	return t
}

func (t *conversation) ask(text string) { t.add(asked(text)) }
func (t *conversation) say(r reply)     { t.add(r.message(false)) }

func (t *conversation) give(results ...result) {
	for _, r := range results {
		t.add(fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, r.id, quote(r.text)))
	}
}

func (t *conversation) add(message string) { t.messages = append(t.messages, message) }

func asked(text string) string { return `{"role":"user","content":` + quote(text) + `}` }

// message is a reply as a message, with the model's thought if it shows one.
func (r reply) message(thought bool) string {
	m := `{"role":"assistant","content":` + quote(r.text)
	if thought && r.thought != "" {
		m += `,"reasoning_content":` + quote(r.thought)
	}
	if len(r.uses) > 0 {
		m += `,"tool_calls":` + each(r.uses, func(_ int, u use) string {
			return fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, u.id, u.tool,
				quote(u.arguments))
		})
	}
	return m + "}"
}

func (r reply) finish() string {
	if len(r.uses) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func offersOf(tools []string) string {
	return each(tools, func(_ int, name string) string {
		return fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":%s}}`, name, anyObject)
	})
}

// summarize replaces the older half of a long conversation by a summary.
func (t *conversation) summarize(summary func() string) {
	if len(t.messages) > t.most {
		t.messages = append([]string{asked(summary())}, t.messages[len(t.messages)-t.most/2:]...)
	}
}

// body returns the request for the model's next answer.
func (t *conversation) body() []byte {
	messages := t.messages
	if t.system != "" {
		messages = append([]string{`{"role":"system","content":` + quote(t.system) + `}`}, messages...)
	}
	options := ""
	if t.offers != "" {
		options = `,"tools":` + t.offers
	}
	if t.stream {
		options += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return fmt.Appendf(nil, `{"model":%q,"messages":[%s]%s}`, t.model, strings.Join(messages, ","), options)
}

// json returns the usage as providers declare it.
func (u usage) json() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
		`"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.input, u.output, u.input+u.output, u.cached, u.reasoning)
}

// whole returns an answer that does not stream.
func whole(id, model string, r reply, u usage) string {
	return fmt.Sprintf(
		`{"id":"chatcmpl-%s","object":"chat.completion","model":%q,"choices":[{"index":0,"message":%s,`+
			`"finish_reason":%q}],`+
			`"usage":%s}`, id, model, r.message(true), r.finish(), u.json())
}

// events returns an answer that streams.
func events(id, model string, r reply, u usage, cut func(string) []string) (out []event) {
	choice := func(text, delta, finish string) {
		out = append(out,
			sse(float64(len(text))/bytesPerToken, `{"id":"chatcmpl-%s","model":%q,"choices":[{"index":0,"delta":%s%s}]}`,
				id, model, delta, finish))
	}
	delta := func(text, format string, args ...any) { choice(text, fmt.Sprintf(format, args...), "") }
	for _, p := range cut(r.thought) {
		delta(p, `{"reasoning_content":%s}`, quote(p))
	}
	for _, p := range cut(r.text) {
		delta(p, `{"content":%s}`, quote(p))
	}
	for i, use := range r.uses {
		delta(use.tool, `{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`,
			i, use.id, use.tool)
		for _, p := range cut(use.arguments) {
			delta(p, `{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(p))
		}
	}
	choice("", `{}`, fmt.Sprintf(`,"finish_reason":%q`, r.finish()))
	return append(out, sse(0, `{"id":"chatcmpl-%s","model":%q,"choices":[],"usage":%s}`, id, model, u.json()),
		event{"data: [DONE]\n\n", 0})
}

// quote writes a text as JSON.
func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return `""` // of no text here
	}
	return string(raw)
}

// each writes a JSON list.
func each[T any](all []T, write func(int, T) string) string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = write(i, v)
	}
	return "[" + strings.Join(out, ",") + "]"
}

const anyObject = `{"type":"object","properties":{"path":{"type":"string"},"query":{"type":"string"},"text":{` +
	`"type":"string"}}}`

// sse writes the data of an event of a stream.
func sse(tokens float64, format string, args ...any) event {
	return event{"data: " + fmt.Sprintf(format, args...) + "\n\n", tokens}
}
