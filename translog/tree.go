package translog

import (
	"math/bits"
	"slices"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
)

// Tree is what it takes to add to a log: its size, and the roots of its complete subtrees. The zero value is the empty
// tree.
type Tree struct {
	Size int64       `json:"size"`
	Edge []tlog.Hash `json:"edge"` // the largest subtree first
}

// With returns the tree with one more entry, and the hashes of the subtrees that end with this entry, the smallest
// first.
func (t Tree) With(entry []byte) (grown Tree, completed []tlog.Hash) {
	h, edge := tlog.RecordHash(entry), slices.Clone(t.Edge)
	completed = append(completed, h)
	for n := t.Size; n&1 == 1; n >>= 1 {
		last := len(edge) - 1
		h, edge = tlog.NodeHash(edge[last], h), edge[:last]
		completed = append(completed, h)
	}
	return Tree{t.Size + 1, append(edge, h)}, completed
}

// Head returns the size and the RFC 6962 root.
func (t Tree) Head() ledger.TreeHead {
	root, _ := tlog.TreeHash(0, nil) // of the empty tree
	for i, h := range slices.Backward(t.Edge) {
		if i == len(t.Edge)-1 {
			root = h
		} else {
			root = tlog.NodeHash(h, root)
		}
	}
	return ledger.TreeHead{Size: t.Size, Root: root}
}

// Rows reads the entries of a log, which are numbered from 0, and what [Tree.With] has returned for each.
type Rows interface {
	// Entries returns n entries from a number on, or as many as there are.
	Entries(from int64, n int) ([]string, error)
	// Completed returns one hash for each entry: the hash at this place of the subtrees that the entry completed.
	// entries are ascending.
	Completed(place int, entries []int64) ([]tlog.Hash, error)
}

// Check refuses rows that are not those of the tree. It reads the last entry, and the roots of the complete subtrees.
func (t Tree) Check(rows Rows) error {
	last, err := rows.Entries(max(0, t.Size-1), 2)
	if err != nil {
		return err
	}
	if int64(len(last)) != min(1, t.Size) {
		return contradicted("does not end with the entry %d", t.Size)
	}
	at := func(place int, end int64, want tlog.Hash) error {
		h, err := rows.Completed(place, []int64{end - 1})
		if err == nil && h[0] != want {
			err = contradicted("has other entries than its tree")
		}
		return err
	}
	end, edge := int64(0), t.Edge
	for level := bits.Len64(uint64(t.Size)) - 1; level >= 0; level-- {
		if t.Size>>level&1 == 0 {
			continue
		}
		if end += 1 << level; len(edge) == 0 {
			return contradicted("has a tree of another size")
		}
		if err := at(level, end, edge[0]); err != nil {
			return err
		}
		edge = edge[1:]
	}
	if t.Size == 0 {
		return nil
	}
	return at(0, t.Size, tlog.RecordHash([]byte(last[0])))
}

// Fill fills in the data of tiles of a log of this size, as [ledger.TreeReader] has it.
func Fill(size int64, tiles []ledger.Tile, from Rows) (err error) {
	for i := range tiles {
		if tiles[i].Data, err = fill(size, tiles[i], from); err != nil {
			return err
		}
	}
	return nil
}

func fill(size int64, of ledger.Tile, rows Rows) (data []byte, err error) {
	level := torchwood.TileHeight * max(of.Level, 0)
	size >>= level
	if of.N > size/torchwood.TileWidth || of.N*torchwood.TileWidth == size {
		return nil, nil
	}
	from := of.N * torchwood.TileWidth
	width := int(min(size-from, torchwood.TileWidth))
	if of.Level == bundle {
		entries, err := rows.Entries(from, width)
		for _, text := range entries {
			if err == nil {
				data, err = torchwood.AppendTileEntry(data, []byte(text))
			}
		}
		return data, err
	}
	ends := make([]int64, width)
	for i := range ends {
		ends[i] = (from+int64(i)+1)<<level - 1
	}
	hashes, err := rows.Completed(level, ends)
	for _, h := range hashes {
		data = append(data, h[:]...)
	}
	return data, err
}
