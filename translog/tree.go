package translog

import (
	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
)

// Tree is the tree of a small log, in memory. The zero value is the empty tree.
type Tree struct {
	size   int64
	hashes []tlog.Hash // by tlog.StoredHashIndex
}

// With returns the tree with one more entry. It shares memory with t: of the trees made from t, keep only the last.
func (t Tree) With(entry []byte) Tree {
	added, _ := tlog.StoredHashes(t.size, entry, t) // t does not fail
	return Tree{t.size + 1, append(t.hashes, added...)}
}

// Head returns the size and the RFC 6962 root.
func (t Tree) Head() ledger.TreeHead {
	root, _ := tlog.TreeHash(t.size, t) // t does not fail
	return ledger.TreeHead{Size: t.size, Root: root}
}

// Fill fills in the data of tiles, as [ledger.TreeReader] has it. entries reads n entries from an index on.
func (t Tree) Fill(tiles []ledger.Tile, entries func(from int64, n int) ([]string, error)) (err error) {
	for i := range tiles {
		if tiles[i].Data, err = t.tile(tiles[i], entries); err != nil {
			return err
		}
	}
	return nil
}

func (t Tree) tile(of ledger.Tile, entries func(from int64, n int) ([]string, error)) ([]byte, error) {
	size := t.size >> (torchwood.TileHeight * max(of.Level, 0)) // of the level
	if of.N > size/torchwood.TileWidth || of.N*torchwood.TileWidth == size {
		return nil, nil
	}
	from := of.N * torchwood.TileWidth
	width := int(min(size-from, torchwood.TileWidth))
	if of.Level != bundle {
		return tlog.ReadTileData(tlog.Tile{H: torchwood.TileHeight, L: of.Level, N: of.N, W: width}, t)
	}
	texts, err := entries(from, width)
	var data []byte
	for _, text := range texts {
		if err == nil {
			data, err = torchwood.AppendTileEntry(data, []byte(text))
		}
	}
	return data, err
}

// ReadHashes implements [tlog.HashReader].
func (t Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	all := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		all[i] = t.hashes[index]
	}
	return all, nil
}
