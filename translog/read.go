package translog

import (
	"context"
	"encoding/binary"
	"slices"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// hashes reads the hashes of a tree from the stored tiles, and verifies each tile against the tree's root.
func hashes(ctx context.Context, store ledger.LogReader, tree tlog.Tree) tlog.HashReader {
	return torchwood.TileHashReaderWithContext(ctx, tree, stored{store})
}

// damaged turns an error of package tlog, which found tiles of another tree, into a refusal.
func damaged(err error) error {
	if err == nil || refusal.CodeOf(err) != "" {
		return err
	}
	return contradicted("cannot be read: %v", err)
}

// stored reads tiles for torchwood.
type stored struct{ ledger.LogReader }

func (s stored) ReadTiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	all := make([]ledger.Tile, len(tiles))
	for i, t := range tiles {
		all[i] = ledger.Tile{Level: t.L, N: t.N}
	}
	if err := s.Tiles(ctx, all); err != nil {
		return nil, err
	}
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		if data[i] = cut(t, all[i].Data); data[i] == nil {
			return nil, contradicted("lacks the tile %s", torchwood.TilePath(t))
		}
	}
	return data, nil
}

func (stored) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadEndpoint is not needed: checkpoints are read from the store.
func (stored) ReadEndpoint(context.Context, string) ([]byte, error) { return nil, ledger.ErrNotFound }

// cut returns the first t.W parts of the stored tile, or nil if it has fewer.
func cut(t tlog.Tile, data []byte) []byte {
	if t.L != bundle {
		if len(data) < t.W*tlog.HashSize {
			return nil
		}
		return slices.Clip(data[:t.W*tlog.HashSize])
	}
	end := 0
	for range t.W {
		if len(data) < end+2 {
			return nil
		}
		end += 2 + int(binary.BigEndian.Uint16(data[end:]))
	}
	if len(data) < end {
		return nil
	}
	return slices.Clip(data[:end])
}
