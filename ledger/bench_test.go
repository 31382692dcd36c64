package ledger_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/ledgertest"
)

// benchmark shares b.N calls of do among 1, 16 and 64 callers. Every call gets a number of its own.
func benchmark(b *testing.B, do func(l *ledger.Ledger, n int) error) {
	for _, callers := range []int{1, 16, 64} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			l := open(b, b.TempDir())
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for {
						n := int(next.Add(1))
						if n > b.N {
							return
						}
						if err := do(l, n); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

func BenchmarkConsume(b *testing.B) {
	expires := ledgertest.Now().Add(time.Minute)
	benchmark(b, func(l *ledger.Ledger, n int) error {
		return l.Consume(context.Background(), ledger.Key{Kind: "capability", ID: strconv.Itoa(n), Expires: expires})
	})
}

// BenchmarkPost is what one post costs: eight keys and the intent in one transaction, the outcome with its artifacts in another.
func BenchmarkPost(b *testing.B) {
	expires := ledgertest.Now().Add(time.Minute)
	artifacts := make([]ledger.Artifact, 8)
	for i := range artifacts {
		artifacts[i] = ledger.Artifact{Name: "artifact" + strconv.Itoa(i), Token: strings.Repeat("x", 800)}
	}
	benchmark(b, func(l *ledger.Ledger, n int) error {
		p := ledger.Post{
			ID: "post_" + strconv.Itoa(n), Flow: "post", Session: "ses_" + strconv.Itoa(n/10), Method: "POST", Host: "api.example", Path: "/v1/things",
			Started: ledgertest.Now(), Artifacts: artifacts,
		}
		keys := make([]ledger.Key, 8)
		for i := range keys {
			keys[i] = ledger.Key{Kind: artifacts[i].Name, ID: p.ID, Expires: expires}
		}
		if err := l.Begin(context.Background(), p, keys...); err != nil {
			return err
		}
		p.State, p.Status, p.Finished = ledger.StateForwarded, 201, ledgertest.Now()
		return l.Finish(context.Background(), p)
	})
}
