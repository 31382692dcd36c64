package inference_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/jsonread"
	"github.com/actionproof/mediator/test/check"
)

func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func list(element string, n int) string {
	return "[" + strings.Repeat(element+",", n-1) + element + "]"
}

// TestMemoryOfRequests checks that a text of too many values is refused before it takes much memory.
func TestMemoryOfRequests(t *testing.T) {
	const n = 2 * jsonread.MaxItems
	for name, body := range map[string]string{
		"tools":      `{"tools":` + list(`{}`, n) + `,"messages":[],"input":"x"}`,
		"namespace":  `{"tools":[{"type":"namespace","tools":` + list(`{}`, n) + `}],"input":"x"}`,
		"messages":   `{"messages":` + list(`{}`, n) + `}`,
		"items":      `{"input":` + list(`{}`, n) + `}`,
		"parts":      `{"messages":[{"role":"user","content":` + list(`{}`, n) + `}]}`,
		"tool calls": `{"messages":[{"role":"user","tool_calls":` + list(`{}`, n) + `}]}`,
		"arguments":  `{"messages":[{"role":"user","tool_calls":[{"x":` + list(`"\",{"`, n) + `}]}]}`,
	} {
		for _, d := range inference.Dialects {
			got := allocated(func() {
				if _, err := inference.Read(inference.Rule{Dialect: d},
					inference.Call{Body: []byte(body), Key: key}); check.CodeOf(err) != malformed {
					t.Errorf("%s, %s: %v", d, name, err)
				}
			})
			if most := 4 * len(body); got > most {
				t.Errorf("%s, %s of %d bytes take %d bytes of memory, want at most %d", d, name, len(body), got, most)
			}
		}
	}
	// Separators within texts do not count.
	body := `{"model":"m","input":"x","messages":[{"role":"user","content":"` +
		strings.Repeat(`,:{[\"`, jsonread.MaxItems) + `"}]}`
	if _, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"input"}},
		inference.Call{Body: []byte(body), Key: key}); err != nil {
		t.Errorf("a long text: %v", err)
	}
}

// TestManyMembers reads requests with as many members as may be: the time for one must not grow with their number.
func TestManyMembers(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"contents":[]`)
	for i := range jsonread.MaxItems/2 - 8 {
		fmt.Fprintf(&body, `,"x%06d":0`, i)
	}
	body.WriteString("}")
	began := time.Now()
	for i := range 20 {
		_, err := inference.Read(inference.Rule{Dialect: inference.Gemini},
			inference.Call{Body: []byte(body.String()), Key: key})
		if check.CodeOf(err) != "model_member_unknown" {
			t.Fatal(err)
		}
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("%d requests take more than five minutes", i+1)
		}
	}
}

func TestMemoryOfAnswers(t *testing.T) {
	const n = 2 * jsonread.MaxItems
	for name, body := range map[string]string{
		"choices": `{"choices":` + list(`{}`, n) + `}`, "output": `{"output":` + list(`{}`, n) + `}`,
		"content": `{"content":` + list(`{}`, n) + `}`,
		"calls":   `{"choices":[{"message":{"tool_calls":` + list(`{}`, n) + `}}]}`,
		"parts":   `{"output":[{"content":` + list(`{}`, n) + `}]}`,
		"names":   `{"a":{"x":0` + strings.Repeat(`,"x":0`, n/2) + `}}`,
	} {
		for _, d := range inference.Dialects {
			got := allocated(func() { observe(t, d, jsonType, body, 0, options()) })
			if most := 8 * len(body); got > most {
				t.Errorf("%s, %s of %d bytes take %d bytes of memory, want at most %d", d, name, len(body), got, most)
			}
		}
	}
}

func TestLongLists(t *testing.T) {
	for n, want := range map[int]string{1024: inference.ReasonNone, 1025: inference.ReasonFormat} {
		in := observe(t, inference.OpenAIChat, jsonType, `{"choices":`+list(`{"message":{"content":"a"}}`, n)+`}`, 0,
			options())
		if in.Reason != want {
			t.Errorf("%d choices: %q", n, in.Reason)
		}
	}
}

func TestMemoryOfCompressedAnswers(t *testing.T) {
	packed := compress(t, `{"a":"`+strings.Repeat("x", 15<<20)+`"}`)
	o, taken := options(), 0
	o.Take = func(n int) bool { taken += n; return taken < 1<<20 }
	b := inference.Observe(mustRead(t, inference.OpenAIChat, smallest[inference.OpenAIChat]), start, o)
	begin(b, http.StatusOK, http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"gzip"}})
	write(t, b, packed, 0)
	b.End(io.EOF)
	if in := b.Interaction(); in.Reason != inference.ReasonNoMemory || taken > 8<<20 {
		t.Errorf("%q after %d bytes", in.Reason, taken)
	}
}

func TestAfterTheEnd(t *testing.T) {
	const said = `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"choices":[],"usage":{"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"
	const more = `data: {"choices":[{"delta":{"content":"bcd","tool_calls":[{"id":"x",` +
		`"function":{"name":"f"}}]}}],"usage":{"completion_tokens":999}}` + "\n\n"
	want := figures(observe(t, inference.OpenAIChat, eventStream, said, 0, options()))
	if got := figures(observe(t, inference.OpenAIChat, eventStream, said+more, 0, options())); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestToolCallsMade counts calls where clients may differ. If they do, the number is not observed.
func TestToolCallsMade(t *testing.T) {
	piece := func(index, id, name string) string {
		return strings.NewReplacer(`"index":,`, "", `"id":"",`, "", `"name":"",`, "").Replace(
			`{"index":` + index + `,"id":"` + id + `","function":{"name":"` + name + `","arguments":"{}"}}`)
	}
	delta := func(calls ...string) string {
		return `{"choices":[{"delta":{"tool_calls":[` + strings.Join(calls, ",") + `]}}]}`
	}
	chat := func(events ...string) string { return stream(append(events, "[DONE]")...) }
	whole := func(calls ...string) string {
		return `{"message":{"tool_calls":[` + strings.Join(calls, ",") + `]}}`
	}
	named := func(events ...string) (out string) {
		for _, e := range events {
			kind, _, _ := strings.Cut(strings.TrimPrefix(e, `{"type":"`), `"`)
			out += "event: " + kind + "\n" + stream(e)
		}
		return out
	}
	const end = `{"type":"message_stop"}`
	block := func(index, id string) string {
		return `{"type":"content_block_start","index":` + index + `,"content_block":{"type":"tool_use","id":"` + id +
			`","name":"f","input":{}}}`
	}
	call := func(id string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
	}
	item := func(event, index, id string) string {
		return `{"type":"response.output_item.` + event + `","output_index":` + index + `,"item":` + call(id) + `}`
	}
	completed := func(calls ...string) string {
		return `{"type":"response.completed","response":{"status":"completed","output":[` + strings.Join(calls, ",") + `]}}`
	}
	const pieces = `{"type":"response.function_call_arguments.delta","delta":"{}"}`
	changed := func(call string) string { return strings.Replace(call, `"{}"`, `"{\"x\":1}"`, 1) }
	a, b, other := piece("0", "a", "f"), piece("0", "b", "f"), piece("1", "b", "f")
	const unclear = -1
	text := func(delta string) string {
		return `{"type":"response.output_text.delta","delta":"` + delta + `"}`
	}
	message := func(text string) string {
		return `{"type":"message","content":[{"type":"output_text","text":"` + text + `"}]}`
	}
	google := func(parts string) string {
		return `{"candidates":[{"content":{"parts":[` + parts + `]},"finishReason":"STOP"}]}`
	}
	const ollama = `{"message":{"tool_calls":[{"function":{"name":"f"}}]},"done":true}`
	type row struct {
		name, body string
		want       int
	}
	for d, rows := range map[inference.Dialect][]row{
		inference.OpenAIChat: {
			{"two", chat(delta(a, other)), 2},
			{"one in pieces", chat(delta(a), delta(piece("0", "", ""))), 1},
			{"one whose pieces repeat it", chat(delta(a), delta(a)), 1},
			{"one whose pieces name two tools", chat(delta(a), delta(piece("0", "a", "g"))), unclear},
			{"of one number", chat(delta(a), delta(b)), unclear},
			{"of one number, in one event", chat(delta(a, b)), unclear},
			{"without numbers", chat(delta(piece("", "a", "f")), delta(piece("", "b", "f"))), 2},
			{"one in pieces without numbers", chat(delta(piece("", "a", "f")), delta(piece("", "", ""))), 1},
			{"without ids", chat(delta(piece("0", "", "f")), delta(piece("0", "", "f"))), unclear},
			{"of one id, without numbers", chat(delta(piece("", "a", "f")), delta(piece("", "a", "f"))), unclear},
			{"after the end", chat(delta(a)) + stream(delta(other)), unclear},
			{"after an error", chat(`{"error":{"code":"x"}}`, delta(a)), unclear},
			{"after a null error", chat(`{"error":null}`, delta(a)), unclear},
			{"without a name", chat(delta(piece("0", "", ""))), unclear},
			{"no object", chat(delta("null")), unclear},
			{"behind an empty event", "data:\n\n" + chat(delta(a)), unclear},
			{"with an end that clients do not see", stream(delta(a), " [DONE]", "[DONE]"), unclear},
			{"with no event", stream(delta(a), "null", "[DONE]"), unclear},
			{"in an event that clients wrap", "event: thread.x\n" + chat(delta(a)), unclear},
			{"in an event without its end", chat(delta(a)) + "data: " + delta(other), unclear},
			{"in a line that some readers find", ": \u2028data: " + delta(a) + "\n\n" + chat(delta()), unclear},
			{"two whole ones of one number", `{"choices":[` + whole(a, a) + `]}`, 2},
			{"of two whole choices of one number", `{"choices":[` + whole(a) + `,` + whole(a) + `]}`, 2},
			{"in another case", chat(strings.Replace(delta(a), "tool", "Tool", 1)), unclear},
			{"in another case, whole", `{"choices":[{"Message":{"tool_calls":[` + a + `]}}]}`, unclear},
			{"beside parts of no known form", `{"choices":[{"message":{"content":["said"]}}]}`, unclear},
		},
		inference.Gemini: {
			{"two", google(`{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}`), 2},
			{"in the other spelling", google(`{"function_call":{"name":"f"}}`), unclear},
			{"in another case", stream(google(`{"FunctionCall":{"name":"f"}}`)), unclear},
			{"with a text beside it", google(`{"functionCall":{"name":"f"},"text":"said"}`), unclear},
			{"with arguments in pieces", google(`{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"$.x"}]}}`),
				unclear},
			{"of the provider, with a text beside it", google(`{"executableCode":{},"text":"said"}`), unclear},
		},
		inference.BedrockConverse: {
			{"one", `{"output":{"message":{"content":[{"toolUse":{"name":"f"}}]}}}`, 1},
			{"in another case", `{"output":{"message":{"content":[{"ToolUse":{"name":"f"}}]}}}`, unclear},
		},
		inference.OllamaChat: {
			{"one", ollama + "\n", 1},
			{"in another case", strings.Replace(ollama, "tool", "Tool", 1) + "\n", unclear},
			{"in a line without its end", ollama, unclear},
			{"in a line that ends for some readers", ollama + "\u2028", unclear},
			{"after a line that some readers divide", "{\"message\":\r{\"content\":\"\u2028\"}}\n" + ollama + "\n",
				unclear},
		},
		inference.AnthropicMessages: {
			{"two", named(block("0", "a"), block("1", "b"), end), 2},
			{"of one number", named(block("0", "a"), block("0", "b"), end), unclear},
			{"in the first event", named(`{"type":"message_start","message":{"content":[{"type":"tool_use","id":"a",`+
				`"name":"f","input":{}}]}}`, end), unclear},
			{"after the end", named(block("0", "a"), end, block("1", "b")), unclear},
			{"with arguments that pieces replace", named(strings.Replace(block("0", "a"), "{}", `{"x":1}`, 1), end),
				unclear},
			{"in an event of another name", "event: x\n" + stream(block("0", "a")) + named(end), unclear},
		},
		inference.OpenAIResponses: {
			{"two", stream(item("added", "0", "a"), item("done", "0", "a"), item("done", "1", "b"),
				completed(call("a"), call("b"))), 2},
			{"one, not repeated at the end", stream(item("done", "0", "a"), completed()), 1},
			{"of one number", stream(item("added", "0", "a"), item("added", "0", "b"), completed()), unclear},
			{"of one number, done", stream(item("done", "0", "a"), item("done", "0", "b"), completed()), unclear},
			{"after the end", stream(item("done", "0", "a"), completed(), item("done", "1", "b")), unclear},
			{"after the end of some servers", stream("[DONE]", item("done", "0", "a"), completed()), unclear},
			{"of another kind", `{"output":[{"type":"computer_call","call_id":"a"}]}`, unclear},
			{"of another kind, streamed",
				stream(`{"type":"response.output_item.done","item":{"type":"shell_call"}}`, completed()),
				unclear},
			{"not done", stream(item("added", "0", "a"), completed(call("a"))), unclear},
			{"done twice", stream(item("done", "0", "a"), item("done", "0", "a"), completed()), unclear},
			{"arguments alone", stream(pieces, completed()), unclear},
			{"more at the end", stream(item("done", "0", "a"), completed(call("a"), call("b"))), unclear},
			{"of none, with a text", stream(text("said"), completed(message("said"))), 0},
			{"of none, with another text at the end", stream(text("said"), completed(message("told"))), unclear},
			{"another at the end", stream(item("done", "0", "a"), completed(call("b"))), unclear},
			{"with other arguments at the end", stream(item("done", "0", "a"), completed(changed(call("a")))), unclear},
			{"with other arguments than in pieces", stream(item("added", "0", "a"), pieces,
				changed(item("done", "0", "a")), completed()), unclear},
			{"by another name at the end", stream(item("done", "0", "a"),
				completed(strings.Replace(call("a"), `"f"`, `"g"`, 1))), unclear},
			{"with the arguments of the pieces", stream(item("added", "0", "a"), pieces, item("done", "0", "a"),
				completed(call("a"))), 1},
		},
	} {
		for _, tt := range rows {
			kind := eventStream
			if d == inference.OllamaChat {
				kind = "application/x-ndjson"
			} else if strings.HasPrefix(tt.body, "{") {
				kind = jsonType
			}
			in := observe(t, d, kind, tt.body, 0, options())
			got := 0
			for _, b := range in.Said {
				if b.Kind == inference.KindCall {
					got++
				}
			}
			if !in.SaidAll {
				got = unclear
			}
			if got != tt.want {
				t.Errorf("%s, %s: %d calls, want %d", d, tt.name, got, tt.want)
			}
		}
	}
}
