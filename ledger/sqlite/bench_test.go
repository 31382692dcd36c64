package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func BenchmarkSQLite(b *testing.B) {
	ledgertest.Benchmark(b, func(b *testing.B) ledger.Store { return open(b, b.TempDir()) })
}

func BenchmarkLater(b *testing.B) {
	ledgertest.BenchmarkLater(b, func(b *testing.B) ledger.Store { return open(b, b.TempDir()) })
}

func BenchmarkGrown(b *testing.B) {
	ledgertest.BenchmarkGrown(b, func(b *testing.B) ledger.Store { return open(b, b.TempDir()) }, 100_000)
}

func BenchmarkChain(b *testing.B) {
	ledgertest.BenchmarkChain(b, func(b *testing.B) ledger.Store { return open(b, b.TempDir()) }, 1_000_000)
}

func BenchmarkLogged(b *testing.B) {
	ledgertest.BenchmarkLogged(b, func(b *testing.B, logged func()) ledgertest.Logging {
		l, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"),
			sqlite.Options{Now: ledgertest.Now, Logged: logged})
		check.Must(b, err)
		b.Cleanup(func() { l.Close() })
		return l
	})
}
