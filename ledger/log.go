package ledger

import "context"

// Leaf is an entry of the transparency log: package translog/leaf makes it. A ledger that logs makes those of intents
// and outcomes itself, in the transaction that stores them.
type Leaf struct {
	ID      string // taken once: the kind, a space, and what the entry is of
	Entry   string // public: what the log holds
	Opening string // what the entry commits to; removed with the records of its time
	Made    int64  // Unix milliseconds
	Index   int64  // in the log; of a pending leaf -1
}

// MaxLeaves bounds a tree. With over 2^62 leaves, the arithmetic of package tlog never ends.
const MaxLeaves = 1 << 53

// TreeHead is a state of the log's tree.
type TreeHead struct {
	Size int64 // leaves
	Root [32]byte
}

// Tile is a part of the tree, or a bundle of its entries, as c2sp.org/tlog-tiles has them at height 8.
type Tile struct {
	Level int // -1 for a bundle of entries
	N     int64
	Data  []byte
}

// Checkpoints are the log's signed states, as c2sp.org/tlog-checkpoint has them; empty before the first one.
type Checkpoints struct {
	Signed   Checkpoint // the newest that the log's key signed
	Accepted Checkpoint // the newest that enough witnesses cosigned, too
}

// Checkpoint is a signed note and the size that it is of.
type Checkpoint struct {
	Size int64
	Note string
}

// Grown is what a batch of leaves makes of a tree.
type Grown struct {
	Head  TreeHead
	Tiles []Tile // new ones, and those that got longer
}

// TreeReader reads the public part of a transparency log. It is safe for concurrent use.
type TreeReader interface {
	// TreeHead returns the tree as it is stored, and the checkpoints of it.
	TreeHead(ctx context.Context) (TreeHead, Checkpoints, error)
	// Tiles fills in the data of tiles. One that is not stored gets none.
	Tiles(ctx context.Context, tiles []Tile) error
}

// LogReader reads a transparency log. It is safe for concurrent use.
type LogReader interface {
	TreeReader
	// Leaf returns the leaf with this id, or [ErrNotFound].
	Leaf(ctx context.Context, id string) (Leaf, error)
}

// Grow makes of a tree what it becomes with more entries. edge are the tree's incomplete tiles.
type Grow func(head TreeHead, edge []Tile, entries []string) (Grown, error)

// Log keeps a transparency log beside the records. It is safe for concurrent use, by several processes too.
type Log interface {
	LogReader
	// AddLeaves stores pending leaves that are of no record, in one transaction. It skips those whose id is taken.
	AddLeaves(ctx context.Context, leaves ...Leaf) error
	// Integrate gives the next numbers to at most limit pending leaves, oldest first, and stores what grow makes of
	// them, in one transaction and in one process at a time. It returns their number; without any it calls no grow.
	Integrate(ctx context.Context, limit int, grow Grow) (n int, err error)
	// PutCheckpoints stores the checkpoints that have a note, each unless the stored one is of a larger tree.
	PutCheckpoints(ctx context.Context, c Checkpoints) error
}
