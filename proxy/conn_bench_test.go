package proxy

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/trigger"
)

// BenchmarkKeepAlivePost compares a 1 KiB POST on a kept connection, direct and intercepted.
func BenchmarkKeepAlivePost(b *testing.B) {
	body := strings.Repeat("x", 1024)
	benchmarkKeepAlive(b, func(c *http.Client, url string) (*http.Response, error) {
		return c.Post(url, "text/plain", strings.NewReader(body))
	})
}

func BenchmarkKeepAliveRead(b *testing.B) {
	benchmarkKeepAlive(b, func(c *http.Client, url string) (*http.Response, error) { return c.Get(url) })
}

func benchmarkKeepAlive(b *testing.B, call func(*http.Client, string) (*http.Response, error)) {
	up := newUpstream(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}, http1)
	r := newRig(b, nil, up.Server)
	measure := func(b *testing.B, c *http.Client, url string) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := call(c, url)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	b.Run("direct", func(b *testing.B) {
		c := up.Client()
		c.Transport.(*http.Transport).MaxIdleConnsPerHost = 100
		measure(b, c, up.URL)
	})
	for _, p := range []protocol{http1, http2} {
		b.Run("intercepted "+strings.ReplaceAll(string(p), "/", ""), func(b *testing.B) {
			measure(b, r.Client(p), "https://"+at(0, up.Server)+"/")
		})
	}
}

// BenchmarkSession measures the memory of an open session.
func BenchmarkSession(b *testing.B) {
	event := trigger.Event{ID: evidence.NewID(), Kind: evidence.TriggerSourceEvent, Source: "github"}
	var before, after runtime.MemStats
	var all []*session.Set
	runtime.GC()
	runtime.ReadMemStats(&before)
	open := 0
	for b.Loop() {
		if open%4096 == 0 {
			all = append(all, session.NewSet(time.Now))
		}
		open++
		s, _, err := all[len(all)-1].Open(event, "worker-1", nil)
		must(b, err)
		s.Bucket(1, 1, time.Now())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(open), "held-B/session")
	runtime.KeepAlive(all)
}
