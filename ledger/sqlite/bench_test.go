package sqlite_test

import (
	"database/sql"
	"flag"
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

var records = flag.Int("records", 100_000, "records of the full ledger in BenchmarkGrown")

func BenchmarkGrown(b *testing.B) {
	ledgertest.BenchmarkGrown(b, func(b *testing.B, held int) ledger.Store {
		dir := b.TempDir()
		check.Must(b, open(b, dir).Close())
		addOlder(b, filepath.Join(dir, "ledger.db"), held)
		return open(b, dir)
	}, *records)
}

// addOlder adds short records, each with nine keys. Their ids, as all ids, rise with the time.
func addOlder(b *testing.B, path string, n int) {
	db, err := sql.Open("sqlite", path)
	check.Must(b, err)
	defer db.Close()
	for _, statement := range []string{
		`INSERT INTO posts SELECT i, printf('post_%026d', i), '', 'post', 'forwarded', printf('ses_%09d', i / 1000),
			1700000000000 + i, 1, '{}' FROM n`,
		`INSERT INTO artifacts SELECT i, '[]' FROM n`,
		`INSERT INTO consumed SELECT i * 9 + k, printf('%026d issuer-%d', i, k), 'kind', 1700000000 + i / 1000
			FROM n, (SELECT 0 AS k UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5
				UNION SELECT 6 UNION SELECT 7 UNION SELECT 8)`,
	} {
		_, err := db.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) `+
			statement, n)
		check.Must(b, err)
	}
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
