package inference_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/inference"
)

var chunk = []byte(
	stream(
		`{"id":"chatcmpl-A3Tguz3LSXTHBTY2NAPBCSyfBltxF","object":"chat.completion.chunk","created":1725392480,` +
			`"model":"gpt-4o-2024-05-13","system_fingerprint":"fp_157b3831f5","choices":[{"index":0,` +
			`"delta":{"content":" weather"},"logprobs":null,"finish_reason":null}],"usage":null}`))

func began(b *testing.B) *inference.Observer {
	o := options()
	o.Now = time.Now
	observer := inference.Observe(mustRead(b, inference.OpenAIChat, smallest[inference.OpenAIChat]), time.Now(), o)
	begin(observer, http.StatusOK, http.Header{"Content-Type": {eventStream}})
	return observer
}

func BenchmarkFollow(b *testing.B) {
	b.ReportAllocs()
	const pieces = 100
	for b.Loop() {
		observer := began(b)
		for range pieces {
			_, _ = observer.Write(chunk)
		}
		observer.End(io.EOF)
		if in := observer.Interaction(); in.Deltas.Value != pieces {
			b.Fatal(in.Outcome, in.Reason)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pieces, "ns/piece")
}

func BenchmarkRead(b *testing.B) {
	message := `,{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}`
	body := []byte(`{"model":"m","messages":[` + strings.Repeat(message, 100)[1:] + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat},
			inference.Call{Body: body, Key: key}); err != nil {
			b.Fatal(err)
		}
	}
}
