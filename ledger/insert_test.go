package ledger_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// TestInsertLater: rows that share a transaction are all stored, however many they are, and one that cannot be leaves the others alone.
func TestInsertLater(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rows    int
		refused []int // those that are there already
	}{
		{"one", 1, nil},
		{"as many as one statement takes", 16, nil},
		{"more", 16 + 4 + 3, nil},
		{"one is refused", 16 + 4 + 3, []int{7}},
		{"the last ones are refused", 40, []int{38, 39}},
		{"the only one is refused", 1, []int{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, err := ledger.OpenDB(context.Background(), filepath.Join(t.TempDir(), "x.db"), []string{"CREATE TABLE t (n INTEGER UNIQUE, of TEXT)"})
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				into, err := db.PrepareInsert(context.Background(), "t (n, of)", 2)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range tt.refused {
					if err := db.Write(context.Background(), insert(n)); err != nil {
						t.Fatal(err)
					}
				}
				told := make([]error, tt.rows)
				for n := range tt.rows {
					if err := db.InsertLater(context.Background(), into, []any{n, "test"}, func(err error) { told[n] = err }); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Millisecond) // of the test's own clock
				synctest.Wait()
				want := make([]int, tt.rows)
				for n, err := range told {
					want[n] = n
					if slices.Contains(tt.refused, n) {
						wantUnavailable(t, err, "UNIQUE")
					} else if err != nil {
						t.Errorf("row %d: %v", n, err)
					}
				}
				if got := rows(t, db); !slices.Equal(got, want) {
					t.Errorf("stored: %v", got)
				}
				var of string
				if err := db.Read().QueryRow("SELECT group_concat(DISTINCT of) FROM t WHERE of IS NOT NULL").Scan(&of); len(tt.refused) < tt.rows && (err != nil || of != "test") {
					t.Errorf("the second column holds %s, %v", of, err)
				}
			})
		})
	}
}
