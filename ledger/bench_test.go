package ledger_test

import (
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/ledgertest"
)

func BenchmarkSQLite(b *testing.B) {
	ledgertest.Benchmark(b, func(b *testing.B) ledger.Store { return open(b, b.TempDir()) })
}
