package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/trigger"
)

// forgetful keeps no records.
type forgetful struct{}

func (forgetful) Begin(context.Context, ledger.Record, ...ledger.Key) error { return nil }
func (forgetful) Finish(context.Context, ledger.Record) error               { return nil }
func (forgetful) Add(context.Context, ledger.Record) error                  { return nil }
func (forgetful) FinishLater(ledger.Record) error                           { return nil }
func (forgetful) AddLater(ledger.Record) error                              { return nil }
func (forgetful) Reserve(ledger.Record, string, int) error                  { return nil }
func (forgetful) Release(string)                                            {}

// newBenchRig has these egress rules, no limits and no records.
func newBenchRig(b *testing.B, answer http.HandlerFunc, egress func(like rules.Action) []rules.Egress) *postRig {
	return newPostRig(b, answer, func(o *PipelineOptions, actions []rules.Action) {
		o.Rules = rulesFor(b, nil, egress(actions[0]))
		o.Load, o.Record = unlimited, forgetful{}
	})
}

// repeat measures calls one after the other.
func (p *postRig) repeat(b *testing.B, call func() (*http.Response, error)) {
	b.ReportAllocs()
	for b.Loop() {
		resp, err := call()
		must(b, err)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		_ = resp.Body.Close()
		p.mu.Lock()
		p.sent, p.body = nil, nil
		p.mu.Unlock()
	}
}

// BenchmarkRead measures the pipeline alone: no connection, upstream or ledger.
func BenchmarkRead(b *testing.B) {
	l := newLoadRig(b, unlimited)
	l.pipeline.o.Record = forgetful{}
	l.answer = func(*http.Request) (int, error) { return http.StatusOK, nil }
	target := upstream.Target{Scheme: "https", Host: "a.example", Port: 8443}
	read := matching(b, "https://a.example:8443/**", "GET")
	l.pipeline.o.Rules = rulesFor(b, nil, []rules.Egress{{Name: "reads", Match: read}})
	r := httptest.NewRequest("GET", "https://a.example:8443/v1/models/7", nil)
	r.Header = http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"agent/1.0"}}
	r = r.WithContext(intercept.WithRoute(r.Context(), intercept.Route{Target: target, ProxyAuthorization: l.open()}))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		l.pipeline.ServeHTTP(w, r)
	}
	if w.Code != http.StatusOK {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
}

// BenchmarkCredentialedRead relays answers with and without the search for a credential.
func BenchmarkCredentialedRead(b *testing.B) {
	const object = `{"id":"evt_01J9Z3","object":"chat.completion","created":1731592800,"choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"How can I help?\nAsk me \"anything\"."}}]},` + "\n"
	sizes := map[string]string{"200 B": object, "1 MiB": strings.Repeat(object, 1<<20/len(object))}
	p := newBenchRig(b, func(w http.ResponseWriter, r *http.Request) {
		_, size, _ := strings.Cut(r.URL.Path[1:], "/")
		_, _ = io.WriteString(w, sizes[strings.ReplaceAll(size, "_", " ")])
	}, func(like rules.Action) []rules.Egress {
		without, with := like.Match, like.Match
		without.Methods, without.Path, with.Methods, with.Path = []string{"GET"}, "/without/**", []string{"GET"}, "/with/**"
		return []rules.Egress{{Name: "without", Match: without}, {Name: "with", Match: with, Credential: like.Credential}}
	})
	for _, size := range []string{"200 B", "1 MiB"} {
		for _, kind := range []string{"without", "with"} {
			b.Run(kind+" "+size, func(b *testing.B) {
				b.SetBytes(int64(len(sizes[size])))
				url := p.base + "/" + kind + "/" + strings.ReplaceAll(size, " ", "_")
				p.repeat(b, func() (*http.Response, error) { return p.client.Get(url) })
			})
		}
	}
}

// benchmarkKind compares calls by a rule about messages with the same bytes by a plain rule.
func benchmarkKind(b *testing.B, answer http.HandlerFunc, body string, kind rules.Egress) {
	p := newBenchRig(b, answer, func(like rules.Action) []rules.Egress {
		plain := rules.Egress{Name: "plain", Match: like.Match}
		plain.Match.Path, kind.Match = "/plain", like.Match
		kind.Match.Path = "/" + kind.Name
		return []rules.Egress{plain, kind}
	})
	for _, rule := range []string{"plain", kind.Name} {
		b.Run(rule, func(b *testing.B) {
			p.repeat(b, func() (*http.Response, error) {
				return p.client.Post(p.base+"/"+rule, "application/json", strings.NewReader(body))
			})
		})
	}
}

func BenchmarkMCPRead(b *testing.B) {
	benchmarkKind(b, answerWith("application/json",
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":%q}],"isError":false}}`,
			strings.Repeat("an issue ", 100))),
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue","arguments":{"owner":"a",`+
			`"repo":"b","number":7,"note":%q},"_meta":{"progressToken":1}}}`, strings.Repeat("a note ", 100)),
		rules.Egress{Name: "mcp", MCP: &mcp.Rule{Tools: []string{"get_issue"}}})
}

func BenchmarkModelStream(b *testing.B) {
	benchmarkKind(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 50 {
			flush(w, fmt.Sprintf(
				`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
					`"delta":{"content":"%d"},"finish_reason":null}]}`+"\n\n", i))
		}
	}, `{"model":"m","stream":true,"messages":[{"role":"user","content":"`+strings.Repeat("a prompt ", 500)+`"}]}`,
		rules.Egress{Name: "observed", Observe: chat})
}

// BenchmarkReceipt measures the CPU time of observing a model call and making its receipt, beside calls without either.
// Client, upstream and storage are included; all kinds take turns.
func BenchmarkReceipt(b *testing.B) {
	const turn = 64 // calls of one kind
	for _, atOnce := range []int{1, 16} {
		b.Run(strconv.Itoa(atOnce)+" at once", func(b *testing.B) {
			r := newReceiptsRig(b, answerModels)
			m := matching(b, r.base+"/v1/chat/completions", "POST")
			keeper := r.pipeline.o.Receipts
			pipeline := func(observe *inference.Rule, keeper *receipts.Keeper) *Pipeline {
				o := r.pipeline.o
				o.Rules = rulesFor(b, nil, []rules.Egress{{Name: "model", Match: m, Observe: observe}})
				o.Record, o.Receipts, o.After, o.Load = r.ledger, keeper, r.pipeline, unlimited
				p, err := NewPipeline(o)
				must(b, err)
				return p
			}
			kinds := []struct {
				name     string
				pipeline *Pipeline
				cpu      time.Duration
			}{{"plain", pipeline(nil, nil), 0}, {"plain-beside", pipeline(nil, keeper), 0},
				{"observed", pipeline(chat, nil), 0},
				{"receipt", pipeline(chat, keeper), 0}}
			calls := 0
			b.ResetTimer()
			for calls < b.N {
				for i := range kinds {
					k := &kinds[i]
					r.handler.Set(k.pipeline)
					began := ledgertest.Used(b)
					for range turn / atOnce {
						r.together(b, atOnce)
					}
					_, err := r.ledger.Get(b.Context(), "none of them") // waits for all records
					head, unsettled := keeper.Head(b.Context(), r.session.Chain)
					if must(b, unsettled); head == nil || !errors.Is(err, ledger.ErrNotFound) {
						b.Fatal(err)
					}
					k.cpu += ledgertest.Used(b) - began
					r.mu.Lock()
					r.sent, r.body = nil, nil
					r.mu.Unlock()
				}
				calls += turn
			}
			for _, k := range kinds {
				b.ReportMetric(float64(k.cpu.Microseconds())/float64(calls), k.name+"-cpu-µs")
			}
			b.ReportMetric(float64((kinds[3].cpu-kinds[2].cpu).Microseconds())/float64(calls), "of-the-receipt-µs")
			b.ReportMetric(kinds[1].cpu.Seconds()/kinds[0].cpu.Seconds(), "plain-ratio")
		})
	}
}

func (r *receiptsRig) together(b *testing.B, n int) {
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			resp, err := r.client.Post(r.base+"/v1/chat/completions", "application/json", strings.NewReader(askModel))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				b.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	calls.Wait()
}

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
