package autonomy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actionproof/mediator/proxy/inference"
)

// use is a call of a tool that a model asks for, with its arguments as JSON.
type use struct{ id, tool, arguments string }

// result is what a tool gave back for a call.
type result struct{ id, text string }

// reply is what a model says.
type reply struct {
	thought string // as far as the provider shows it
	text    string
	uses    []use
	hidden  int // tokens of reasoning that are not shown
}

// size returns how many bytes the reply shows.
func (r reply) size() int {
	n := len(r.thought) + len(r.text)
	for _, u := range r.uses {
		n += len(u.tool) + len(u.arguments)
	}
	return n
}

// usage are the tokens that a provider declares.
type usage struct{ input, cached, output, reasoning int }

// event is an event of a stream, with about as many tokens as it brings.
type event struct {
	data   string
	tokens float64
}

// dialect writes requests and answers as one API has them.
type dialect interface {
	asked(text string) string
	said(r reply) []string
	returned(all []result) []string
	tools(names []string) string
	request(t *conversation) string
	whole(id, model string, r reply, u usage) string
	events(id, model string, r reply, u usage, cut func(text string) []string) []event
}

func dialectOf(d inference.Dialect) dialect {
	switch d {
	case inference.OpenAIResponses:
		return responsesDialect{}
	case inference.AnthropicMessages:
		return messagesDialect{}
	}
	return chatDialect{}
}

// conversation is a conversation as an agent keeps it.
type conversation struct {
	dialect
	model  string
	system string
	offers string // tools
	stream bool
	// most is how many messages are kept. Agents drop or summarize what is older.
	most     int
	messages []string
}

func newConversation(m *model, system string, tools []string, stream bool) *conversation {
	t := &conversation{dialect: dialectOf(m.dialect), model: m.name, system: system, stream: stream, most: 40}
	if len(tools) > 0 {
		t.offers = t.tools(tools)
	}
	return t
}

func (t *conversation) ask(text string)        { t.add(t.asked(text)) }
func (t *conversation) say(r reply)            { t.add(t.said(r)...) }
func (t *conversation) give(results ...result) { t.add(t.returned(results)...) }

func (t *conversation) add(messages ...string) { t.messages = append(t.messages, messages...) }

// summarize replaces the older half of a conversation that has become too long by a summary.
func (t *conversation) summarize(summary func() string) {
	if len(t.messages) > t.most {
		t.messages = append([]string{t.asked(summary())}, t.messages[len(t.messages)-t.most/2:]...)
	}
}

// body returns the request for the model's next answer.
func (t *conversation) body() []byte { return []byte(t.request(t)) }

func (t *conversation) list() string { return "[" + strings.Join(t.messages, ",") + "]" }

// quote writes a text as JSON.
func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return `""` // of no text here
	}
	return string(raw)
}

// offered writes a member of a request that offers tools, if there are any.
func (t *conversation) offered() string {
	if t.offers == "" {
		return ""
	}
	return `,"tools":` + t.offers
}

// each writes a JSON list of what write makes of each element.
func each[T any](all []T, write func(int, T) string) string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = write(i, v)
	}
	return "[" + strings.Join(out, ",") + "]"
}

const anyObject = `{"type":"object","properties":{"path":{"type":"string"},"query":{"type":"string"},"text":{"type":"string"}}}`

// sse writes the data of an event of a stream.
func sse(tokens float64, format string, args ...any) event {
	return event{"data: " + fmt.Sprintf(format, args...) + "\n\n", tokens}
}
