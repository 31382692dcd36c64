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
	tree, err := treeOn(head, edge)
	if err != nil {
		return grown, err
	}
	for _, entry := range entries {
		n := tree.Size
		last := growing(&grown.Tiles, edge, bundle, n)
		if last.Data, err = torchwood.AppendTileEntry(last.Data, []byte(entry)); err != nil {
			return grown, err
		}
		var completed []tlog.Hash
		tree, completed = tree.With([]byte(entry))
		for level := 0; level*torchwood.TileHeight < len(completed); level++ {
			below := level * torchwood.TileHeight
			last := growing(&grown.Tiles, edge, level, n>>below)
			last.Data = append(last.Data, completed[below][:]...)
		}
	}
	grown.Head = tree.Head()
	return grown, nil
}

// treeOn returns the tree with this head and these incomplete tiles.
func treeOn(head ledger.TreeHead, edge []ledger.Tile) (Tree, error) {
	t := Tree{Size: head.Size}
	for _, index := range torchwood.RightEdge(head.Size) {
		of := tlog.TileForIndex(torchwood.TileHeight, index)
		h, err := tlog.HashFromTile(of, edgeTile(edge, of.L, of.N), index)
		if err != nil {
			return t, contradicted("lacks a tile of its right edge")
		}
		t.Edge = append(t.Edge, h)
	}
	if head.Size > 0 && t.Head() != head {
		return t, contradicted("has tiles that are not those of its root")
	}
	return t, nil
}

func edgeTile(edge []ledger.Tile, level int, n int64) []byte {
	i := slices.IndexFunc(edge, func(t ledger.Tile) bool { return t.Level == level && t.N == n })
	if i < 0 {
		return nil
	}
	return slices.Clip(edge[i].Data)
}

// growing returns the tile of a level that gets the next part, which is number i of the level. It adds the tile to
// grown if it is not there yet.
func growing(grown *[]ledger.Tile, edge []ledger.Tile, level int, i int64) *ledger.Tile {
	n := i / torchwood.TileWidth
	for at := range slices.Backward(*grown) {
		if t := &(*grown)[at]; t.Level == level && t.N == n {
			return t
		}
	}
	*grown = append(*grown, ledger.Tile{Level: level, N: n, Data: edgeTile(edge, level, n)})
	return &(*grown)[len(*grown)-1]
}

// contradicted is the error of a log that does not continue what it was, or that its storage has damaged.
func contradicted(format string, args ...any) error {
	return refusal.New("log_contradicted", "the transparency log "+format, args...)
}
