package translog_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
)

// TestTree grows a tree in memory and one in a store side by side.
func TestTree(t *testing.T) {
	var tree translog.Tree
	var entries []string
	var stored ledger.TreeHead
	tiles := make(map[string]ledger.Tile)
	name := func(f ledger.Tile) string { return fmt.Sprint(f.Level, " ", f.N) }
	read := func(from int64, n int) ([]string, error) { return entries[from : from+int64(n)], nil }
	for i := range 513 {
		entries = append(entries, fmt.Sprint("entry ", i))
		tree.With([]byte("another entry")) // given up
		tree = tree.With([]byte(entries[i]))
		g, err := translog.Grow(stored, slices.Collect(maps.Values(tiles)), entries[i:])
		check.Must(t, err)
		stored = g.Head
		for _, f := range g.Tiles {
			tiles[name(f)] = f
		}
		if tree.Head() != stored {
			t.Fatalf("%+v, want %+v", tree.Head(), stored)
		}
		if i%100 != 0 && i != 255 && i < 510 {
			continue
		}
		for level := -1; level < 4; level++ {
			for _, n := range []int64{0, 1, 2, 3, 1 << 50} {
				f := []ledger.Tile{{Level: level, N: n}}
				check.Must(t, tree.Fill(f, read))
				check.WantEqual(t, string(f[0].Data), string(tiles[name(f[0])].Data))
			}
		}
	}
	away := errors.New("away")
	if err := tree.Fill([]ledger.Tile{{Level: -1}}, func(int64, int) ([]string, error) { return nil, away }); err != away {
		t.Error(err)
	}
}
