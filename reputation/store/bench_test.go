package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
)

func BenchmarkAppend(b *testing.B) {
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "reputation.db"), "")
	check.Must(b, err)
	defer s.Close()
	many, err := strconv.Atoi(os.Getenv("RECEIPTS"))
	if err != nil {
		many = 10_000
	}
	token, sessions := strings.Repeat("x", 3<<10), 0
	fill := func() {
		sessions++
		a := addition(fmt.Sprintf("ses_%d", sessions), 1, 200)
		a.MaxSessions, a.MaxReceipts = 1<<30, 1<<30
		for i := range a.Receipts {
			a.Receipts[i].Hash, a.Receipts[i].Token = fmt.Sprintf("%08x%056d", (sessions*200+i)*2654435761%(1<<32), i), token
		}
		check.Must(b, s.Append(b.Context(), a))
	}
	for range many / 200 {
		fill()
	}
	b.Run("add", func(b *testing.B) {
		for b.Loop() {
			fill()
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			got, err := s.Receipts(b.Context(), "o", "ses_7", 1, store.MaxReceipts)
			if err != nil || len(got) != 200 {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("find", func(b *testing.B) {
		hash := fmt.Sprintf("%08x%056d", (7*200+3)*2654435761%(1<<32), 3)
		for b.Loop() {
			if _, err := s.Receipt(b.Context(), hash); err != nil {
				b.Fatal(err)
			}
		}
	})
}
