package translog_test

import (
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

var leaves = flag.Int("leaves", 1_000_000, "entries of the large log in BenchmarkGrown")

// kept is the distance of the leaves that can be proven in a log of load.
const kept = 1000

// load writes the tree of a large log to a new ledger.
func load(b *testing.B, db *sql.DB, held int) {
	tx, err := db.Begin()
	check.Must(b, err)
	var head ledger.TreeHead
	var edge []ledger.Tile
	do := func(query string, args ...any) {
		_, err := tx.Exec(query, args...)
		check.Must(b, err)
	}
	for n := 0; n < held; n = int(head.Size) {
		var entries []string
		for i := n; i < min(n+1<<16, held); i++ {
			if i%kept > 0 && i < held-1 {
				entries = append(entries, fmt.Sprintf("%0190d", i))
				continue
			}
			id := fmt.Sprintf("post_%d", i)
			f := leaf.New(leaf.Intent, now, leaf.Document{Post: id}).Leaf(id)
			do(`INSERT INTO leaves (number, id, entry, opening, made) VALUES (?, ?, ?, ?, ?)`,
				i, f.ID, f.Entry, f.Opening, f.Made)
			entries = append(entries, f.Entry)
		}
		grown, err := translog.Grow(head, edge, entries)
		check.Must(b, err)
		for _, t := range grown.Tiles {
			do(`INSERT INTO tiles (level, n, data) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET data = excluded.data`,
				t.Level, t.N, t.Data)
			edge = slices.DeleteFunc(edge, func(old ledger.Tile) bool { return old.Level == t.Level })
			edge = append(edge, t)
		}
		head = grown.Head
	}
	do(`UPDATE tree SET size = ?, root = ?`, head.Size, head.Root[:])
	check.Must(b, tx.Commit())
}

// BenchmarkGrown measures a checkpoint of 100 new leaves, a proof, and a start, with a small log and a large one.
func BenchmarkGrown(b *testing.B) {
	for _, held := range []int{10_000, *leaves} {
		b.Run(fmt.Sprint("held=", held), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "ledger.db")
			store := open(b, path)
			db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
			check.Must(b, err)
			defer db.Close()
			load(b, db, held)
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
					//nolint:gosec // no secret
					_, err := translog.Prove(b.Context(), store, intent(rand.IntN(held/kept)*kept))
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
