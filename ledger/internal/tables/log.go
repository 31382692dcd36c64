package tables

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog/leaf"
)

const (
	// lockTree makes other processes wait until this transaction ends.
	lockTree      = `UPDATE tree SET size = size RETURNING size, root`
	selectTile    = `SELECT data FROM tiles WHERE level = $1 AND n = $2`
	selectPending = `SELECT seq, entry FROM leaves WHERE number IS NULL ORDER BY seq LIMIT $1`
	numberLeaf    = `UPDATE leaves SET number = $2 WHERE seq = $1`
	// putTile only makes tiles longer.
	putTile = `INSERT INTO tiles (level, n, data) VALUES ($1, $2, $3) ON CONFLICT (level, n)
		DO UPDATE SET data = excluded.data WHERE length(tiles.data) < length(excluded.data)`
	putTree     = `UPDATE tree SET size = $1, root = $2 WHERE size < $1`
	putSigned   = `UPDATE tree SET signed_size = $1, signed = $2 WHERE signed_size <= $1 AND size >= $1`
	putAccepted = `UPDATE tree SET accepted_size = $1, accepted = $2 WHERE accepted_size <= $1 AND size >= $1`

	selectTree = `SELECT size, root, signed_size, signed, accepted_size, accepted FROM tree`
	selectLeaf = `SELECT id, entry, opening, made, coalesce(number, -1) FROM leaves WHERE id = $1`
)

// emptyRoot is the root of a tree without leaves (RFC 6962 section 2.1).
func emptyRoot() []byte {
	empty := sha256.Sum256(nil)
	return empty[:]
}

// logIntent adds the leaf of a post that is about to go out, if the ledger logs.
func (l *Ledger) logIntent(b *batch, r ledger.Record) error {
	if l.o.Logged == nil {
		return nil
	}
	o, err := leaf.OfIntent(r, l.o.Now())
	if err != nil {
		return ledger.Unavailable("log the post", err)
	}
	b.leaf(insertLeaf, o.Leaf(r.ID))
	return nil
}

// logOutcome adds the leaf of a post's outcome, if the ledger logs.
func (l *Ledger) logOutcome(b *batch, r ledger.Record, text string) error {
	if l.o.Logged == nil {
		return nil
	}
	o, err := leaf.OfOutcome(r, text, l.o.Now())
	if err != nil {
		return ledger.Unavailable("log the post", err)
	}
	if r.State == ledger.StateIndeterminate {
		b.leaf(insertEnd, o.Leaf(r.ID), leaf.ID(leaf.Intent, r.ID))
	} else {
		b.leaf(insertLeaf, o.Leaf(r.ID))
	}
	return nil
}

func (b *batch) leaf(query string, f ledger.Leaf, more ...any) {
	b.add(query, append([]any{f.ID, f.Entry, f.Opening, f.Made}, more...)...)
}

func (l *Ledger) AddLeaves(ctx context.Context, leaves ...ledger.Leaf) error {
	var b batch
	for _, f := range leaves {
		b.leaf(addLeaf, f)
	}
	return l.signal(l.run(ctx, "log", b...))
}

func (l *Ledger) Integrate(ctx context.Context, limit int, grow ledger.Grow) (n int, err error) {
	err = l.db.Write(ctx, "grow the log", func(t db.Tx) (err error) {
		if n, err = integrate(t, limit, grow); err != nil {
			n, err = 0, coded("grow the log", err)
		}
		return err
	})
	return n, err
}

// coded makes a [ledger.Error] of an error without a code.
func coded(doing string, err error) error {
	if c := interface{ Code() string }(nil); errors.As(err, &c) {
		return err
	}
	return ledger.Unavailable(doing, err)
}

func integrate(t db.Tx, limit int, grow ledger.Grow) (int, error) {
	if some, err := db.ManyIn[int64](t, `SELECT seq FROM leaves WHERE number IS NULL LIMIT 1`); err != nil ||
		len(some) == 0 {
		return 0, err
	}
	trees, err := db.ManyIn[tree](t, lockTree)
	if err == nil && len(trees) == 0 {
		err = errors.New("the log's tree is missing")
	}
	if err != nil {
		return 0, err
	}
	head, err := trees[0].head()
	if err != nil {
		return 0, err
	}
	edge, err := edgeOf(t, head.Size)
	if err != nil {
		return 0, err
	}
	type leaf struct {
		Seq   int64
		Entry string
	}
	pending, err := db.ManyIn[leaf](t, selectPending, limit)
	if err != nil || len(pending) == 0 { // another process took them
		return 0, err
	}
	var b batch
	entries := make([]string, len(pending))
	for i, f := range pending {
		entries[i] = f.Entry
		b.add(numberLeaf, f.Seq, head.Size+int64(i))
	}
	grown, err := grow(head, edge, entries)
	if err != nil {
		return 0, err
	}
	for _, put := range grown.Tiles {
		b.must(fmt.Errorf("tile %d/%d would not grow", put.Level, put.N), putTile, put.Level, put.N, put.Data)
	}
	b.must(errors.New("the tree would not grow"), putTree, grown.Head.Size, grown.Head.Root[:])
	return len(entries), t.Run(b...)
}

// tree is the row of the log's tree.
type tree struct {
	Size int64
	Root []byte
	ledger.Checkpoints
}

func (t tree) head() (head ledger.TreeHead, err error) {
	head.Size = t.Size
	switch {
	case len(t.Root) != len(head.Root):
		err = errors.New("the root of the log's tree is cut off")
	case head.Size < 0 || head.Size > ledger.MaxLeaves:
		err = fmt.Errorf("the log's tree cannot have %d entries", head.Size)
	}
	copy(head.Root[:], t.Root)
	return head, err
}

// width is the number of hashes in a full tile.
const width = 256

// edgeOf reads the incomplete tiles of a tree.
func edgeOf(t db.Tx, size int64) (edge []ledger.Tile, err error) {
	if size%width != 0 {
		edge = append(edge, ledger.Tile{Level: -1, N: size / width})
	}
	for level := 0; size > 0; level, size = level+1, size/width {
		if size%width != 0 {
			edge = append(edge, ledger.Tile{Level: level, N: size / width})
		}
	}
	for i, e := range edge {
		data, err := db.ManyIn[[]byte](t, selectTile, e.Level, e.N)
		if err == nil && len(data) == 0 {
			err = fmt.Errorf("the tile %d/%d is missing", e.Level, e.N)
		}
		if err != nil {
			return nil, err
		}
		edge[i].Data = data[0]
	}
	return edge, nil
}

func (l *Ledger) PutCheckpoints(ctx context.Context, c ledger.Checkpoints) error {
	var b batch
	if c.Signed.Note != "" {
		b.add(putSigned, c.Signed.Size, c.Signed.Note)
	}
	if c.Accepted.Note != "" {
		b.add(putAccepted, c.Accepted.Size, c.Accepted.Note)
	}
	return l.run(ctx, "store the log's checkpoint", b...)
}

func (r Reader) TreeHead(ctx context.Context) (head ledger.TreeHead, c ledger.Checkpoints, err error) {
	found, err := one[tree](ctx, r, selectTree)
	if err == nil {
		if head, err = found.head(); err != nil {
			err = ledger.Unavailable("read the log", err)
		}
	}
	return head, found.Checkpoints, err
}

func (r Reader) Tiles(ctx context.Context, tiles []ledger.Tile) (err error) {
	for i, t := range tiles {
		tiles[i].Data, err = one[[]byte](ctx, r, selectTile, t.Level, t.N)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (r Reader) Leaf(ctx context.Context, id string) (ledger.Leaf, error) {
	return one[ledger.Leaf](ctx, r, selectLeaf, id)
}
