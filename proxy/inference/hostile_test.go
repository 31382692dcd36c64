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

// allocated returns how many bytes of memory a function takes in all.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// list writes a JSON list of n elements.
func list(element string, n int) string {
	return "[" + strings.Repeat(element+",", n-1) + element + "]"
}

// TestMemoryOfRequests: a text of more values than a conversation has is refused before it takes a hundred times its
// own memory.
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
				if _, err := inference.Read(inference.Rule{Dialect: d}, []byte(body), key); code(err) != malformed {
					t.Errorf("%s, %s: %v", d, name, err)
				}
			})
			if most := 4 * len(body); got > most {
				t.Errorf("%s, %s of %d bytes take %d bytes of memory, want at most %d", d, name, len(body), got, most)
			}
		}
	}
	// What stands in texts is no value.
	body := `{"model":"m","input":"x","messages":[{"role":"user","content":"` +
		strings.Repeat(`,:{[\"`, jsonread.MaxItems) + `"}]}`
	if _, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"input"}}, []byte(body),
		key); err != nil {
		t.Errorf("a long text: %v", err)
	}
}

// TestMemoryOfAnswers: so does an answer.
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

// TestLongLists: a list that no provider sends is not followed, and one that a provider may send is.
func TestLongLists(t *testing.T) {
	for n, want := range map[int]string{1024: inference.ReasonNone, 1025: inference.ReasonFormat} {
		in := observe(t, inference.OpenAIChat, jsonType, `{"choices":`+list(`{"message":{"content":"a"}}`, n)+`}`, 0,
			options())
		if in.Reason != want {
			t.Errorf("%d choices: %q", n, in.Reason)
		}
	}
}

// TestMemoryOfCompressedAnswers: what a compressed answer holds counts as it is decompressed.
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

// TestOtherCase: what a server that reads names in any case takes for a tool, or for an address, is judged or refused.
func TestOtherCase(t *testing.T) {
	for _, tt := range []struct {
		dialect inference.Dialect
		body    string
		want    string
	}{
		{inference.AnthropicMessages, `{"messages":[],"tools":[{"Type":"web_search_20250305","name":"web_search"}]}`,
			ambiguous},
		{inference.OpenAIChat, `{"messages":[],"tools":[{"type":"function","Function":{"name":"f"}}]}`, ambiguous},
		{inference.OpenAIResponses, `{"input":"x","tools":[{"type":"shell","environment":{"type":"local"},"Tools":[]}]}`,
			ambiguous},
		{inference.OpenAIResponses, `{"input":"x","tools":[{"type":"shell","environment":{"Type":"container_auto"}}]}`,
			ambiguous},
		{inference.OpenAIResponses,
			`{"input":"x","tools":[{"type":"namespace","tools":[{"type":"function","Type ":1,"TYPE":"mcp"}]}]}`, ambiguous},
		{inference.OpenAIResponses, `{"input":[{"role":"user","content":[],"TYPE":"item_reference"}]}`, ambiguous},
		{inference.OpenAIChat, `{"messages":[{"role":"user","Content":[{"type":"image_url","image_url":"https://x"}]}]}`,
			ambiguous},
		{inference.OpenAIChat, `{"messages":[{"role":"user","content":[{"Type":"image_url","image_url":{"url":"data:,"}}]}]}`,
			ambiguous},
		{inference.OpenAIChat,
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"URL":"https://x"}}]}]}`, hosted},
		{inference.OpenAIChat, `{"messages":[{"role":"user","content":[{"type":"image_url","Image_URL":"relative"}]}]}`,
			hosted},
		{inference.AnthropicMessages,
			`{"messages":[{"role":"user","content":[{"type":"image","Source":{"TYPE":"url","Url":"https://x"}}]}]}`, hosted},
		{inference.OpenAIChat, `{"messages":[],"tools\u0000":[{"type":"mcp"}]}`, ambiguous},
	} {
		if _, err := inference.Read(inference.Rule{Dialect: tt.dialect}, []byte(tt.body), key); code(err) != tt.want {
			t.Errorf("%s %s: %v", tt.dialect, tt.body, err)
		}
	}
}

// TestAddresses: what the provider may fetch is refused, in whatever member a server has it, and a text that speaks of
// an address is not.
func TestAddresses(t *testing.T) {
	part := func(s string) string { return `{"role":"user","content":[` + s + `]}` }
	for body, want := range map[string]string{
		// Mistral
		part(`{"type":"document_url","document_url":"https://x/?a"}`): hosted,
		// OpenRouter
		part(`{"type":"file","file":{"filename":"a.pdf","file_data":"https://x/a.pdf"}}`): hosted,
		// DashScope
		part(`{"type":"input_audio","input_audio":{"data":"https://x/a.wav"}}`): hosted,
		part(
			`{"type":"video","video":["https://x/1.jpg","https://x/2.jpg"]}`): hosted,
		part(
			`{"type":"image","image":" HTTPS://x/1.jpg"}`): hosted,
		part(
			`{"type":"image","image":"http:\\\\x"}`): hosted,
		part(
			`{"type":"file","file":{"file_data":"s3://bucket/key"}}`): hosted,
		part(
			`{"type":"text","text":"a","image_url":{"url":"https://x"}}`): hosted,
		part(
			`{"type":"image","parts":[{"text":"a"},"https://x"]}`): hosted,
		`{"role":"user","content":"a","file_urls":["https://x"]}`:                                                       hosted,
		`{"role":"user","content":"a","attachments":[{"type":"web","at":"https://x"}]}`:                                 hosted,
		part(`{"type":"file","file":{"filename":"https://x","file_data":"data:,a"}}`):                                   "",
		part(`{"type":"text","text":"https://x"}`):                                                                      "",
		part(`{"type":"document","title":"https://x","source":{"data":"see https://x now"}}`):                           "",
		part(`{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`):                                 "",
		`{"role":"assistant","content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"https://x"}}]}`: "",
	} {
		_, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat}, []byte(`{"messages":[`+body+`]}`), key)
		if code(err) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestAfterTheEnd: what comes after the end of a stream reaches no client, and counts for nothing.
func TestAfterTheEnd(t *testing.T) {
	const said = `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"choices":[],"usage":{"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"
	const more = `data: {"choices":[{"delta":{"content":"bcd","tool_calls":[{"id":"x","function":{"name":"f"}}]}}],"usage":{"completion_tokens":999}}` + "\n\n"
	want := figures(observe(t, inference.OpenAIChat, eventStream, said, 0, options()))
	if got := figures(observe(t, inference.OpenAIChat, eventStream, said+more, 0, options())); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}
