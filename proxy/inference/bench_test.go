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
)

// chunk is an event of the usual size.
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

// BenchmarkWrite compares a Write with a plain copy.
func BenchmarkWrite(b *testing.B) {
	const pieces = 1000 // of one answer: no more than may be queued
	b.Run("observed", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		var observer *inference.Observer
		for b.Loop() {
			if n%pieces == 0 {
				observer = began(b)
			}
			_, _ = observer.Write(chunk)
			n++
		}
	})
	b.Run("copied", func(b *testing.B) {
		held := make([]byte, 0, len(chunk))
		for b.Loop() {
			held = append(held[:0], chunk...)
		}
	})
}

// BenchmarkFollow includes the reader.
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

// BenchmarkRead judges a conversation of 100 KiB.
func BenchmarkRead(b *testing.B) {
	message := `,{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}`
	body := []byte(`{"model":"m","messages":[` + strings.Repeat(message, 100)[1:] + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat}, body, key, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenStreams measures the memory of 1,000 open streams after 200 pieces each.
func BenchmarkOpenStreams(b *testing.B) {
	const streams = 1000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		open := make([]*inference.Observer, streams)
		for i := range open {
			open[i] = began(b)
			for range 200 {
				_, _ = open[i].Write(chunk)
				runtime.Gosched()
			}
		}
		for range 100 { // until the readers are done
			runtime.Gosched()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/streams, "B/stream")
		for _, o := range open {
			o.Interaction()
		}
		runtime.KeepAlive(fmt.Sprint(len(open)))
	}
}
