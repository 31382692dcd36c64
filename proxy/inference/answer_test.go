package inference_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
)

const (
	eventStream = "text/event-stream; charset=utf-8"
	jsonType    = "application/json"
)

func stream(events ...string) string {
	return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
}

func TestAnswers(t *testing.T) {
	for _, tt := range corpus(t, "answers.txtar") {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.body) > 4096 {
				t.Fatal("in pieces of one byte it would be more than a reader may be behind")
			}
			whole := observe(t, tt.dialect, tt.kind(), tt.body, 0, options())
			if got := figures(whole); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
			for _, size := range []int{1, 7, 100} {
				pieces := observe(t, tt.dialect, tt.kind(), tt.body, size, options())
				if got := figures(pieces); got != tt.want || hashes(pieces) != hashes(whole) {
					t.Errorf("in pieces of %d bytes: got\n%s, want\n%s", size, got, tt.want)
				}
			}
		})
	}
}

// TestSaidIsAsked checks that a model's words have the same hash when the agent sends them back.
func TestSaidIsAsked(t *testing.T) {
	said := make(map[inference.Dialect][]inference.Block)
	for _, tt := range corpus(t, "answers.txtar") {
		said[tt.dialect] = append(said[tt.dialect], observe(t, tt.dialect, tt.kind(), tt.body, 0, options()).Said...)
	}
	for d, body := range map[inference.Dialect]string{
		inference.OpenAIChat: `{"messages":[{"role":"assistant","content":"Let's look",` +
			`"tool_calls":[{"id":"call_FXo","type":"function","function":{"name":"get_weather",` +
			`"arguments":"{\"location\":\"Santorini\"}"}}]}]}`,
		inference.OpenAIResponses: `{"input":[{"role":"assistant","content":[{"type":"output_text",` +
			`"text":"hello world"}]},{"type":"function_call","call_id":"call_1","name":"get_weather",` +
			`"arguments":"{\"city\":\"SF\"}"}]}`,
		inference.AnthropicMessages: `{"messages":[{"role":"assistant","content":[{"type":"text",` +
			`"text":"Hello!"},{"type":"tool_use","id":"toolu_1","name":"get_weather",` +
			`"input":{"city":"SF"}},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}]}`,
	} {
		for _, asked := range mustRead(t, d, body).Asked {
			found := false
			for _, b := range said[d] {
				found = found || b.Hash == asked.Hash && b.Kind == asked.Kind
			}
			if !found {
				t.Errorf("%s: the %s is not found again", d, asked.Kind)
			}
		}
	}
}
