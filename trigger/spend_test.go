package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/test/ledgertest"
)

// BenchmarkSpend measures a payment, also of an event that has paid for many posts.
func BenchmarkSpend(b *testing.B) {
	for _, paid := range []int{0, 100_000} {
		for _, callers := range []int{1, 16, 64} {
			b.Run("paid="+strconv.Itoa(paid)+"/callers="+strconv.Itoa(callers), func(b *testing.B) {
				s, now := paidFor(b, paid)
				var next atomic.Int64
				var all sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				defer ledgertest.CPU(b)()
				for range callers {
					all.Go(func() {
						for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
							if _, err := s.spend(context.Background(), "evt", "create_post", hashLike(n), 1<<40, now); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}

func paidFor(b *testing.B, posts int) (store, time.Time) {
	b.Helper()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s, err := openStore(context.Background(), filepath.Join(b.TempDir(), "events.db"), "", "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.db.Close() })
	e := Event{
		ID: "evt", Kind: evidence.TriggerScheduled, Source: "s", Method: evidence.MethodSchedulerLock, EvidenceID: "e",
		ReceivedAt: now, ExpiresAt: now.Add(time.Hour), State: Received,
	}
	_, _, err = s.add(context.Background(), e, nil, []string{"id:e"})
	if err == nil {
		_, err = s.claim(context.Background(), e.ID, "runtime", now)
	}
	for n := 0; n < posts && err == nil; n += 1000 {
		err = s.db.Write(context.Background(), writing, func(tx db.Tx) (err error) {
			for i := n; i < n+1000 && err == nil; i++ {
				_, err = tx.Exec(`INSERT INTO uses (event, action, binding) VALUES ('evt', 'create_post', $1)`,
					hashLike(int64(-1-i)))
			}
			return err
		})
	}
	if err == nil && posts > 0 {
		err = s.db.Write(context.Background(), writing, func(tx db.Tx) error {
			_, err := tx.Exec(`INSERT INTO spent (event, action, posts) VALUES ('evt', 'create_post', $1)`, posts)
			return err
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	return s, now
}

// hashLike spreads like the hash of a binding.
func hashLike(n int64) string {
	sum := sha256.Sum256(strconv.AppendInt(nil, n, 10))
	return "sha256:" + hex.EncodeToString(sum[:])
}
