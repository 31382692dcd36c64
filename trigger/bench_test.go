package trigger_test

import (
	"strconv"
	"sync/atomic"
	"testing"
)

// BenchmarkEvidence measures the service's part of each post: one durable write and two signatures.
func BenchmarkEvidence(b *testing.B) {
	k := newKit(b)
	id := k.claimed(b)
	var n atomic.Int64
	post := func() {
		if _, err := k.Evidence(b.Context(), id, binding("action-"+strconv.FormatInt(n.Add(1), 10))); err != nil {
			b.Error(err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			post()
		}
	})
	b.Run("among many", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				post()
			}
		})
	})
}
