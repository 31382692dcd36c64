package translog

import (
	"slices"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// bundle is the level of a tile of entries.
const bundle = -1

// Grow appends entries to the tree with this head. It needs only the tree's incomplete tiles, so its cost does not grow
// with the tree. It refuses tiles that are not those of the tree.
func Grow(head ledger.TreeHead, edge []ledger.Tile, entries []string) (grown ledger.Grown, err error) {
	known, err := rightEdge(head, edge)
	if err != nil {
		return grown, err
	}
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		all := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			h, ok := known[index]
			if !ok {
				return nil, contradicted("lacks a hash of its right edge")
			}
			all[i] = h
		}
		return all, nil
	})
	size := head.Size
	for _, entry := range entries {
		hashes, err := tlog.StoredHashes(size, []byte(entry), read)
		if err != nil {
			return grown, err
		}
		for i, h := range hashes {
			known[tlog.StoredHashIndex(0, size)+int64(i)] = h
		}
		size++
	}
	root, err := tlog.TreeHash(size, read)
	if err != nil {
		return grown, err
	}
	tiles, err := appendEntries(head.Size, edge, entries)
	if err != nil {
		return grown, err
	}
	for level := 0; size>>(torchwood.TileHeight*level) > 0; level++ {
		tiles = append(tiles, appendHashes(head.Size, size, level, edge, known)...)
	}
	return ledger.Grown{Head: ledger.TreeHead{Size: size, Root: root}, Tiles: tiles}, nil
}

// rightEdge returns the hashes that appending needs, by index, and checks the stored tree against its root.
func rightEdge(head ledger.TreeHead, edge []ledger.Tile) (map[int64]tlog.Hash, error) {
	known := make(map[int64]tlog.Hash)
	root, err := tlog.TreeHash(head.Size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		all := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			t := tlog.TileForIndex(torchwood.TileHeight, index)
			h, err := tlog.HashFromTile(t, edgeTile(edge, t.L, t.N), index)
			if err != nil {
				return nil, contradicted("lacks a tile of its right edge")
			}
			all[i], known[index] = h, h
		}
		return all, nil
	}))
	if err == nil && head.Size > 0 && root != tlog.Hash(head.Root) {
		err = contradicted("has tiles that are not those of its root")
	}
	return known, damaged(err)
}

func edgeTile(edge []ledger.Tile, level int, n int64) []byte {
	i := slices.IndexFunc(edge, func(t ledger.Tile) bool { return t.Level == level && t.N == n })
	if i < 0 {
		return nil
	}
	return slices.Clip(edge[i].Data)
}

// appendHashes returns the tiles of a level that change when the tree grows from one size to another.
func appendHashes(from, to int64, level int, edge []ledger.Tile, known map[int64]tlog.Hash) (tiles []ledger.Tile) {
	from, to = from>>(torchwood.TileHeight*level), to>>(torchwood.TileHeight*level)
	for i := from; i < to; i++ {
		n := i / torchwood.TileWidth
		if len(tiles) == 0 || tiles[len(tiles)-1].N != n {
			tiles = append(tiles, ledger.Tile{Level: level, N: n, Data: edgeTile(edge, level, n)})
		}
		h := known[tlog.StoredHashIndex(torchwood.TileHeight*level, i)]
		last := &tiles[len(tiles)-1]
		last.Data = append(last.Data, h[:]...)
	}
	return tiles
}

func appendEntries(size int64, edge []ledger.Tile, entries []string) (tiles []ledger.Tile, err error) {
	for i, entry := range entries {
		n := (size + int64(i)) / torchwood.TileWidth
		if len(tiles) == 0 || tiles[len(tiles)-1].N != n {
			tiles = append(tiles, ledger.Tile{Level: bundle, N: n, Data: edgeTile(edge, bundle, n)})
		}
		last := &tiles[len(tiles)-1]
		if last.Data, err = torchwood.AppendTileEntry(last.Data, []byte(entry)); err != nil {
			return nil, err
		}
	}
	return tiles, nil
}

// contradicted is the error of a log that does not continue what it was, or that its storage has damaged.
func contradicted(format string, args ...any) error {
	return refusal.New("log_contradicted", "the transparency log "+format, args...)
}
