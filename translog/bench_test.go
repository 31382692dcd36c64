package translog_test

import (
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/translog"
)

var leaves = flag.Int("leaves", 1_000_000, "entries of the large log in BenchmarkGrown")

// kept is the distance of the leaves that BenchmarkGrown keeps, as pruning would keep the newest.
const kept = 1000

// BenchmarkGrown measures a checkpoint of 100 new leaves, a proof, and a start, with a small log and a large one.
func BenchmarkGrown(b *testing.B) {
	for _, held := range []int{1000, *leaves} {
		b.Run(fmt.Sprint("held=", held), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "ledger.db")
			store := open(b, path)
			db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
			check.Must(b, err)
			defer db.Close()
			for n := 0; n < held; {
				batch := min(20_000, held-n)
				add(b, store, n, batch)
				if _, err := store.Integrate(b.Context(), batch, translog.Grow); err != nil {
					b.Fatal(err)
				}
				_, err := db.Exec(`DELETE FROM leaves WHERE number >= ? AND number % ? <> 0`, n, kept)
				check.Must(b, err)
				n += batch
			}
			p := policy(b, "quorum none")
			log := start(b, store, p)
			check.Must(b, log.Publish(b.Context()))
			next := held
			b.Run("publish", func(b *testing.B) {
				defer ledgertest.CPU(b)()
				for b.Loop() {
					add(b, store, next, 100)
					check.Must(b, log.Publish(b.Context()))
					next += 100
				}
			})
			b.Run("prove", func(b *testing.B) {
				defer ledgertest.CPU(b)()
				for b.Loop() {
					_, err := translog.Prove(b.Context(), store, intent(rand.IntN(held/kept)*kept)) //nolint:gosec // no secret
					check.Must(b, err)
				}
			})
			b.Run("start", func(b *testing.B) {
				defer ledgertest.CPU(b)()
				for b.Loop() {
					start(b, store, p)
				}
			})
		})
	}
}
