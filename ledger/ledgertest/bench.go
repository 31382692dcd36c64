package ledgertest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// Benchmark measures a store with 1, 16 and 64 callers. open returns an empty one.
func Benchmark(b *testing.B, open func(b *testing.B) ledger.Store) {
	b.Run("Consume", func(b *testing.B) { benchmark(b, open, consume) })
	b.Run("Post", func(b *testing.B) { benchmark(b, open, postOnce) })
}

// benchmark shares b.N calls of do among the callers. Every call gets a number of its own.
func benchmark(b *testing.B, open func(b *testing.B) ledger.Store, do func(l ledger.Store, n int) error) {
	for _, callers := range []int{1, 16, 64} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			l := open(b)
			b.ReportAllocs()
			b.ResetTimer()
			defer CPU(b)()
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

func consume(l ledger.Store, n int) error {
	return l.Consume(context.Background(), ledger.Key{Kind: "capability", ID: strconv.Itoa(n), Expires: Now().Add(time.Minute)})
}

// postOnce is what one post costs: eight keys and the intent in one transaction, the outcome with its artifacts in another.
func postOnce(l ledger.Store, n int) error {
	artifacts, keys := make([]ledger.Artifact, 8), make([]ledger.Key, 8)
	p := ledger.Post{
		ID: "post_" + strconv.Itoa(n), Flow: "post", Session: "ses_" + strconv.Itoa(n/10), Method: "POST", Host: "api.example", Path: "/v1/things",
		Started: Now(), Artifacts: artifacts,
	}
	for i := range artifacts {
		artifacts[i] = ledger.Artifact{Name: "artifact" + strconv.Itoa(i), Token: token}
		keys[i] = ledger.Key{Kind: artifacts[i].Name, ID: p.ID, Expires: Now().Add(time.Minute)}
	}
	if err := l.Begin(context.Background(), p, keys...); err != nil {
		return err
	}
	p.State, p.Status, p.Finished = ledger.StateForwarded, 201, Now()
	return l.Finish(context.Background(), p)
}

var token = strings.Repeat("x", 800) // about the size of an artifact
