package inference_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/jsonread"
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
				if _, err := inference.Read(inference.Rule{Dialect: d}, []byte(body), key, nil); code(err) != malformed {
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
	if _, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"input"}}, []byte(body),
		key, nil); err != nil {
		t.Errorf("a long text: %v", err)
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

// TestMemoryOfCompressedAnswers checks that decompressed bytes count.
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

// TestAfterTheEnd checks that nothing counts after the end of a stream: clients do not read it.
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
