package translog_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
)

// TestTree grows a tree in memory and one in a store, and compares both with package tlog.
func TestTree(t *testing.T) {
	var tree translog.Tree
	var entries []string
	var stored ledger.TreeHead
	var hashes []tlog.Hash // as package tlog stores them
	read := tlog.HashReaderFunc(func(indexes []int64) (all []tlog.Hash, _ error) {
		for _, i := range indexes {
			all = append(all, hashes[i])
		}
		return all, nil
	})
	tiles := make(map[string]ledger.Tile)
	name := func(f ledger.Tile) string { return fmt.Sprint(f.Level, " ", f.N) }
	rows := new(grownRows)
	for i := range 513 {
		entries = append(entries, fmt.Sprint("entry ", i))
		tree.With([]byte("another entry")) // given up
		var completed []tlog.Hash
		tree, completed = tree.With([]byte(entries[i]))
		rows.entries, rows.completed = entries, append(rows.completed, completed)
		g, err := translog.Grow(stored, slices.Collect(maps.Values(tiles)), entries[i:])
		check.Must(t, err)
		stored = g.Head
		for _, f := range g.Tiles {
			tiles[name(f)] = f
		}
		more, err := tlog.StoredHashes(int64(i), []byte(entries[i]), read)
		check.Must(t, err)
		hashes = append(hashes, more...)
		root, err := tlog.TreeHash(tree.Size, read)
		check.Must(t, err)
		if want := (ledger.TreeHead{Size: int64(i) + 1, Root: root}); tree.Head() != want || stored != want {
			t.Fatalf("%+v and %+v, want %+v", tree.Head(), stored, want)
		}
		for _, f := range g.Tiles {
			if f.Level < 0 {
				continue
			}
			of := tlog.Tile{H: torchwood.TileHeight, L: f.Level, N: f.N, W: len(f.Data) / tlog.HashSize}
			want, err := tlog.ReadTileData(of, read)
			check.Must(t, err)
			check.WantEqual(t, string(f.Data), string(want))
		}
		if i%100 != 0 && i != 255 && i < 510 {
			continue
		}
		for level := -1; level < 4; level++ {
			for _, n := range []int64{0, 1, 2, 3, 1 << 50} {
				f := []ledger.Tile{{Level: level, N: n}}
				check.Must(t, translog.Fill(tree.Size, f, rows))
				check.WantEqual(t, string(f[0].Data), string(tiles[name(f[0])].Data))
			}
		}
	}
	for name, edit := range map[string]func(*grownRows, *translog.Tree){
		"another last entry": func(r *grownRows, _ *translog.Tree) { r.entries[512] = "x" },
		"an entry more":      func(r *grownRows, _ *translog.Tree) { r.entries = append(r.entries, "x") },
		"an entry less":      func(r *grownRows, _ *translog.Tree) { r.entries = r.entries[:512] },
		"another hash":       func(r *grownRows, _ *translog.Tree) { r.completed[511] = make([]tlog.Hash, 10) },
		"a shorter edge":     func(_ *grownRows, t *translog.Tree) { t.Edge = t.Edge[:1] },
		"":                   func(*grownRows, *translog.Tree) {},
	} {
		r := &grownRows{entries: slices.Clone(rows.entries), completed: slices.Clone(rows.completed)}
		of := tree
		edit(r, &of)
		if err := of.Check(r); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
	check.Must(t, translog.Tree{}.Check(new(grownRows)))
	rows.err = errors.New("away")
	for _, level := range []int{-1, 0} {
		if err := translog.Fill(tree.Size, []ledger.Tile{{Level: level}}, rows); err != rows.err {
			t.Error(err)
		}
	}
}

// grownRows are the rows of a log.
type grownRows struct {
	entries   []string
	completed [][]tlog.Hash
	err       error
}

func (k *grownRows) Entries(from int64, n int) ([]string, error) {
	size := int64(len(k.entries))
	return k.entries[min(from, size):min(from+int64(n), size)], k.err
}

func (k *grownRows) Completed(place int, entries []int64) (all []tlog.Hash, _ error) {
	for _, i := range entries {
		all = append(all, k.completed[i][place])
	}
	return all, k.err
}
