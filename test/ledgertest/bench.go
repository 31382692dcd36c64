package ledgertest

import (
	"context"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
)

// Benchmark measures a store with 1, 16 and 64 callers. open returns an empty one.
func Benchmark(b *testing.B, open func(b *testing.B) ledger.Store) {
	for name, do := range map[string]func(l ledger.Store, n int) error{"Consume": consume, "Post": postOnce,
		"Read": read} {
		b.Run(name, func(b *testing.B) {
			for _, callers := range []int{1, 16, 64} {
				b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) { together(b, open(b), callers, do) })
			}
		})
	}
}

// BenchmarkGrown measures posts of 16 callers in an empty store and in one with so many older records, which open adds.
func BenchmarkGrown(b *testing.B, open func(b *testing.B, held int) ledger.Store, records int) {
	for _, held := range []int{0, records} {
		b.Run("held="+strconv.Itoa(held), func(b *testing.B) {
			l, made := open(b, held), 0
			b.Run("callers=16", func(b *testing.B) {
				b.ReportAllocs()
				defer CPU(b)()
				share(b, 16, b.N, func(n int) error { return postOnce(l, made+n) })
				made += b.N
			})
		})
	}
}

// BenchmarkLogged measures posts of 16 callers without and with a transparency log, whose leaves then get their
// numbers.
func BenchmarkLogged(b *testing.B, open func(b *testing.B, logged func()) Logging) {
	for name, logged := range map[string]func(){"off": nil, "on": func() {}} {
		b.Run("log="+name, func(b *testing.B) {
			l := open(b, logged)
			b.ReportAllocs()
			b.ResetTimer()
			defer CPU(b)()
			share(b, 16, b.N, func(n int) error { return postOnce(l, n) })
			for n := 1; n > 0; {
				var err error
				n, err = l.Integrate(b.Context(), 512, translog.Grow)
				check.Must(b, err)
			}
		})
	}
}

// BenchmarkExport measures posts of 16 callers without and with an export, which drain ends.
func BenchmarkExport(b *testing.B, open func(b *testing.B, ended func()) Exporting, drain func(from ledger.Exports)) {
	for name, ended := range map[string]func(){"off": nil, "on": func() {}} {
		b.Run("export="+name, func(b *testing.B) {
			l := open(b, ended)
			b.ReportAllocs()
			b.ResetTimer()
			defer CPU(b)()
			share(b, 16, b.N, func(n int) error { return postOnce(l, n) })
			if ended != nil {
				drain(l)
			}
		})
	}
}

// together shares b.N calls of do among the callers.
func together(b *testing.B, l ledger.Store, callers int, do func(l ledger.Store, n int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	defer CPU(b)()
	share(b, callers, b.N, func(n int) error { return do(l, n) })
}

// share shares calls of do among callers. Each call gets a number of its own, from 1 on.
func share(b *testing.B, callers, calls int, do func(n int) error) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := int(next.Add(1)); n <= calls; n = int(next.Add(1)) {
				if err := do(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func consume(l ledger.Store, n int) error {
	return l.Consume(context.Background(),
		ledger.Key{Kind: "capability", ID: "gate " + id(n), Expires: Now().Add(time.Minute)})
}

// BenchmarkLater measures records of calls without evidence through the queue, with so many stored together.
func BenchmarkLater(b *testing.B, open func(b *testing.B) ledger.Store) {
	for _, together := range []int{1, 32, 256} {
		b.Run("together="+strconv.Itoa(together), func(b *testing.B) {
			l := ledger.NewQueue(open(b), func(_ ledger.Record, err error) { b.Error(err) })
			defer l.Close()
			b.ReportAllocs()
			b.ResetTimer()
			defer CPU(b)()
			for n := 1; n <= b.N; n++ {
				p := call(n)
				err := l.AddLater(p)
				if n%together == 0 {
					_, err = l.Get(context.Background(), p.ID) // once all are stored
				}
				check.Must(b, err)
			}
		})
	}
}

// read makes a call without evidence.
func read(l ledger.Store, n int) error { return l.Add(context.Background(), call(n)) }

// call is the record of a call that needed no evidence.
func call(n int) ledger.Record {
	return ledger.Record{
		ID: "post_" + id(n), Flow: "egress", State: ledger.StateForwarded, Session: session(n), Event: "evt_" + id(n/1000),
		Rule: "read", Method: "GET",
		Host: "api.example", Path: "/v1/things/" + strconv.Itoa(n), Started: Now(), Finished: Now(), Status: 200,
		BytesIn: 2000,
		Steps: []ledger.Step{{Name: "session", Micros: 3}, {Name: "match", Micros: 10}, {Name: "upstream", Micros: 2000},
			{Name: "relay", Micros: 100}},
	}
}

// postOnce makes one post: nine keys and the intent in one transaction, the outcome in another.
func postOnce(l ledger.Store, n int) error {
	artifacts, keys := make([]ledger.Artifact, len(kinds)), make([]ledger.Key, len(kinds))
	p := ledger.Record{
		ID: "post_" + id(n), Flow: "post", Session: session(n), Event: "evt_" + id(n/1000), Rule: "create",
		Subject: "agent:writer", Action: "create_post",
		Resource: "POST /v1/things?draft=false", Method: "POST", Host: "api.example", Path: "/v1/things", ContentHash: hash,
		BindingHash: hash, CapabilityID: id(n),
		Started: Now().Add(time.Duration(n) * 2 * time.Millisecond), Artifacts: artifacts,
	}
	for i, kind := range kinds {
		artifacts[i] = ledger.Artifact{Name: kind, Token: token}
		keys[i] = ledger.Key{Kind: kind, ID: "issuer-" + strconv.Itoa(i) + " " + id(n), Expires: Now().Add(time.Minute)}
		p.Checks = append(p.Checks, ledger.Check{Name: "received " + kind, OK: true},
			ledger.Check{Name: "gate: " + kind, OK: true})
		p.Steps = append(p.Steps, ledger.Step{Name: kind, Micros: int64(n)})
	}
	if err := l.Begin(context.Background(), p, keys...); err != nil {
		return err
	}
	p.State, p.Status, p.Finished, p.Checks = ledger.StateForwarded, 201, Now(),
		append(p.Checks, ledger.Check{Name: "single use", OK: true})
	p.Steps = append(p.Steps, ledger.Step{Name: "upstream", Micros: 1000}, ledger.Step{Name: "relay", Micros: 100})
	return l.Finish(context.Background(), p)
}

// kinds are about those of a post's artifacts.
var kinds = strings.Fields(
	"challenge origin_proof trigger_receipt policy_decision action_grant runtime_attestation session_receipt " +
		"capability request_proof")

var (
	token = strings.Repeat("x", 1100) // about the size of an artifact
	hash  = fmt.Sprintf("%064x", 1)
)

// id returns an identifier as they are made: the time, here 500 of them a second, and then chance.
func id(n int) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(Now().UnixMilli()+int64(n)*2)<<16) //nolint:gosec // positive
	binary.BigEndian.PutUint64(b[8:], rand.Uint64())                           //nolint:gosec // no secret
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])
}

// session returns one of the few sessions that are open at a time.
func session(n int) string { return fmt.Sprintf("ses_%06d", n/4000*4+n%4) }

// BenchmarkChain measures reading a chain of 1,000 receipts among so many receipts of other sessions.
func BenchmarkChain(b *testing.B, open func(b *testing.B) ledger.Store, receipts int) {
	const length, together = 1000, 8 // receipts of a session; sessions at a time
	l := open(b)
	text := strings.Repeat("x", 2400) // about the size of a receipt
	for n := 0; n < receipts; n += length {
		batch := make([]ledger.Receipt, length)
		for i := range batch {
			at := n + i
			s := fmt.Sprintf("ses_%06d", at/(length*together)*together+at%together)
			batch[i] = ledger.Receipt{Session: s, Number: int64(at%(length*together)/together) + 1, Call: "post_" + id(at),
				Signed: Now(), Token: text}
		}
		check.Must(b, l.AddReceipts(context.Background(), batch...))
	}
	b.ReportAllocs()
	b.ResetTimer()
	defer CPU(b)()
	quickest := time.Hour // what the machine does besides is in all others
	defer func() { b.ReportMetric(float64(quickest.Nanoseconds()), "quickest-ns") }()
	for n := 0; b.Loop(); n++ {
		s, began := fmt.Sprintf("ses_%06d", n*7919%(receipts/length)), time.Now()
		if chain, err := l.Chain(context.Background(), s, 1, length); err != nil || len(chain) != length {
			b.Fatal(s, len(chain), err)
		}
		quickest = min(quickest, time.Since(began))
	}
}
