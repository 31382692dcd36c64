package postgres_test

import (
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func BenchmarkPostgres(b *testing.B) {
	ledgertest.Benchmark(b, func(b *testing.B) ledger.Store { return open(b, database(b), "one") })
}

func BenchmarkLater(b *testing.B) {
	ledgertest.BenchmarkLater(b, func(b *testing.B) ledger.Store { return open(b, database(b), "one") })
}

func BenchmarkChain(b *testing.B) {
	ledgertest.BenchmarkChain(b, func(b *testing.B) ledger.Store { return open(b, database(b), "one") }, 1_000_000)
}

func BenchmarkLogged(b *testing.B) {
	ledgertest.BenchmarkLogged(b, func(b *testing.B, logged func()) ledgertest.Logging {
		o := options("one")
		o.Logged = logged
		l, err := postgres.Open(b.Context(), database(b), o)
		check.Must(b, err)
		b.Cleanup(func() { l.Close() })
		return l
	})
}
