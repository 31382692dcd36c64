package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/match"
)

// BenchmarkModelStream compares streams that are observed with streams by a plain rule, in turns: the median time until
// the first piece of an answer is there, and the median delay of a piece from the upstream to the client, which share
// the process.
func BenchmarkModelStream(b *testing.B) {
	const pieces = 50
	p := newPostRig(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range pieces {
			fmt.Fprintf(w,
				"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,"+
					"\"delta\":{\"content\":\"%d\"},\"finish_reason\":null}]}\n\n", time.Now().UnixNano())
			flush(w)
			time.Sleep(200 * time.Microsecond) // models are slower
		}
	}, func(o *PipelineOptions, actions []Action) {
		at := func(path string) match.Match {
			m := actions[0].Match
			m.Path, m.Methods = path, []string{"POST"}
			return m
		}
		o.Rules = rulesFor(b, nil,
			[]Egress{{Name: "plain", Match: at("/plain")},
				{Name: "observed", Match: at("/observed"), Observe: &inference.Rule{Dialect: inference.OpenAIChat}}})
		o.Load = Load{Session: Rate{PerSecond: maxRate}, Host: Rate{PerSecond: maxRate}}
		o.Record = forgetful{}
	})
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("a prompt ", 500) + `"}]}`
	var first, delay [2][]time.Duration
	for range b.N {
		for i, path := range []string{"/plain", "/observed"} {
			began := time.Now()
			resp, err := p.client.Post(p.base+path, "application/json", strings.NewReader(body))
			must(b, err)
			lines := bufio.NewScanner(resp.Body)
			for n := 0; lines.Scan(); {
				_, rest, ok := strings.Cut(lines.Text(), `"content":"`)
				if !ok {
					continue
				}
				now := time.Now()
				if n++; n == 1 {
					first[i] = append(first[i], now.Sub(began))
				}
				sent, err := strconv.ParseInt(rest[:strings.IndexByte(rest, '"')], 10, 64)
				must(b, err)
				delay[i] = append(delay[i], now.Sub(time.Unix(0, sent)))
			}
			must(b, lines.Err())
			must(b, resp.Body.Close())
		}
		p.mu.Lock()
		p.sent, p.body = nil, nil
		p.mu.Unlock()
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Nanoseconds()) / 1000
	}
	for i, name := range []string{"plain", "observed"} {
		b.ReportMetric(median(first[i]), name+"-first-µs")
		b.ReportMetric(median(delay[i]), name+"-piece-µs")
	}
}
