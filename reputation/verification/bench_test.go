package verification_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/store"
)

// BenchmarkTurn submits the third turn of a session, and says the median. SQLite includes the fsync of the one write, unless TMPDIR is in memory.
func BenchmarkTurn(b *testing.B) {
	for _, name := range []string{"memory", "SQLite"} {
		b.Run(name, func(b *testing.B) {
			c := &clock{now: noon}
			var kept verification.Store = store.NewMemory(c.Now)
			if name == "SQLite" {
				s, err := store.OpenSQLite(b.Context(), filepath.Join(b.TempDir(), "verification.db"), c.Now)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = s.Close() })
				kept = s
			}
			t := &testing.T{}
			a := newAgent(t)
			service, err := verification.New(kept, neverSigns{}, verification.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var took []time.Duration
			for i := range b.N {
				b.StopTimer()
				by := verification.Caller{Subject: fmt.Sprint("agent:", i)}
				session, err := service.Challenge(b.Context(), by, a.pem)
				if err != nil {
					b.Fatal(err)
				}
				previous, canary := verification.ChainSeed, ""
				for n := range 3 {
					out, err := service.List(b.Context(), by, session.ID)
					if err != nil {
						b.Fatal(err)
					}
					turn := verification.Turn{ToolCall: verification.ToolServers, Output: string(out), Reasoning: topic + canary}
					turn.Hash = turn.HashAfter(previous)
					previous, canary = turn.Hash, canaryOf(turn)
					if n == 2 {
						b.StartTimer()
					}
					began := time.Now()
					if _, err := service.Turn(b.Context(), by, session.ID, turn); err != nil {
						b.Fatal(err)
					}
					if n == 2 {
						took = append(took, time.Since(began))
					}
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns/op")
		})
	}
}

// BenchmarkOpenSessions says what 1,000 sessions with three turns take in memory.
func BenchmarkOpenSessions(b *testing.B) {
	for range b.N {
		c := &clock{now: noon}
		service, err := verification.New(store.NewMemory(c.Now), neverSigns{}, verification.Options{})
		if err != nil {
			b.Fatal(err)
		}
		a := newAgent(&testing.T{})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 1000 {
			by := verification.Caller{Subject: fmt.Sprint("agent:", i)}
			session, err := service.Challenge(b.Context(), by, a.pem)
			if err != nil {
				b.Fatal(err)
			}
			previous, canary := verification.ChainSeed, ""
			for range 3 {
				out, err := service.List(b.Context(), by, session.ID)
				if err != nil {
					b.Fatal(err)
				}
				turn := verification.Turn{ToolCall: verification.ToolServers, Output: string(out), Reasoning: topic + canary}
				turn.Hash = turn.HashAfter(previous)
				previous, canary = turn.Hash, canaryOf(turn)
				if _, err := service.Turn(b.Context(), by, session.ID, turn); err != nil {
					b.Fatal(err)
				}
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB")
		runtime.KeepAlive(service)
	}
}

// neverSigns signs nothing.
type neverSigns struct{ verification.Signer }
