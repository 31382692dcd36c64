package proxy

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/test/ledgertest"
)

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
				o.Rules = rulesFor(b, nil, []Egress{{Name: "model", Match: m, Observe: observe}})
				o.Record, o.Receipts, o.After = r.ledger, keeper, r.pipeline
				o.Load = Load{Session: Rate{PerSecond: maxRate}, Host: Rate{PerSecond: maxRate}}
				p, err := NewPipeline(o)
				must(b, err)
				return p
			}
			chat := &inference.Rule{Dialect: inference.OpenAIChat}
			kinds := []struct {
				name     string
				pipeline *Pipeline
				cpu      time.Duration
			}{{"plain", pipeline(nil, nil), 0}, {"plain-beside", pipeline(nil, keeper), 0}, {"observed", pipeline(chat, nil), 0},
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
