package verification_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
)

func BenchmarkTurn(b *testing.B) {
	c := &clock{now: noon}
	kept, err := verification.Open(b.Context(), filepath.Join(b.TempDir(), "verification.db"), "", c.Now)
	check.Must(b, err)
	b.Cleanup(func() { _ = kept.Close() })
	t := &testing.T{}
	a := newAgent(t)
	service, err := verification.New(kept, neverSigns{}, verification.Options{})
	check.Must(b, err)
	b.ReportAllocs()
	var took []time.Duration
	for i := range b.N {
		b.StopTimer()
		by := verification.Caller{Subject: fmt.Sprint("agent:", i)}
		session, err := service.Challenge(b.Context(), by, a.pem)
		check.Must(b, err)
		previous, canary := verification.ChainSeed, ""
		for n := range 3 {
			out, err := service.List(b.Context(), by, session.ID)
			check.Must(b, err)
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
}

type neverSigns struct{ verification.Signer }
