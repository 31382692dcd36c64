package postgres_test

import (
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

func BenchmarkPostgres(b *testing.B) {
	server := pgtest.Start(b)
	ledgertest.Benchmark(b, func(b *testing.B) ledger.Store { return open(b, server.Database(b), "one") })
}

func BenchmarkLater(b *testing.B) {
	server := pgtest.Start(b)
	ledgertest.BenchmarkLater(b, func(b *testing.B) ledger.Store { return open(b, server.Database(b), "one") })
}

// BenchmarkChain shows what it costs to read a session's chain among a million receipts.
func BenchmarkChain(b *testing.B) {
	server := pgtest.Start(b)
	ledgertest.BenchmarkChain(b, func(b *testing.B) ledger.Store { return open(b, server.Database(b), "one") }, 1_000_000)
}
