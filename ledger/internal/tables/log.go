package tables

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog/leaf"
)

// Statements of the transparency log, the same in both databases.
const (
	// InsertTree takes the root of the empty tree: see [EmptyRoot].
	InsertTree = `INSERT INTO tree (one, size, root, signed_size, signed, accepted_size, accepted)
		VALUES (1, 0, $1, 0, '', 0, '') ON CONFLICT DO NOTHING`

	// lockTree makes other processes wait until this transaction ends.
	lockTree   = `UPDATE tree SET size = size RETURNING size, root`
	selectTile = `SELECT data FROM tiles WHERE level = $1 AND n = $2`
	// putTile only makes tiles longer.
	putTile = `INSERT INTO tiles (level, n, data) VALUES ($1, $2, $3) ON CONFLICT (level, n)
		DO UPDATE SET data = excluded.data WHERE length(tiles.data) < length(excluded.data)`
	putTree     = `UPDATE tree SET size = $1, root = $2 WHERE size < $1`
	putSigned   = `UPDATE tree SET signed_size = $1, signed = $2 WHERE signed_size <= $1 AND size >= $1`
	putAccepted = `UPDATE tree SET accepted_size = $1, accepted = $2 WHERE accepted_size <= $1 AND size >= $1`

	selectHas  = `SELECT count(*) FROM leaves WHERE id = $1`
	selectTree = `SELECT size, root, signed_size, signed, accepted_size, accepted FROM tree`
)

// EmptyRoot is the root of a tree without leaves (RFC 6962 section 2.1).
func EmptyRoot() []byte {
	empty := sha256.Sum256(nil)
	return empty[:]
}

// Integrate implements [ledger.Log]. pgx plans a statement with fresh anew.
func (d Dialect) Integrate(ctx context.Context, tx *sql.Tx, limit int, grow ledger.Grow,
	fresh ...any) (n int, err error) {
	if n, err = d.integrate(ctx, tx, limit, grow, fresh); err != nil {
		return 0, coded("grow the log", err)
	}
	return n, nil
}

// coded makes a [ledger.Error] of an error without a code.
func coded(doing string, err error) error {
	if c := interface{ Code() string }(nil); errors.As(err, &c) {
		return err
	}
	return ledger.Unavailable(doing, err)
}

func (d Dialect) integrate(ctx context.Context, tx *sql.Tx, limit int, grow ledger.Grow, fresh []any) (int, error) {
	var pending int
	if err := tx.QueryRowContext(ctx, d.Pending).Scan(&pending); err != nil || pending == 0 {
		return 0, err
	}
	var head ledger.TreeHead
	if err := scanHead(tx.QueryRowContext(ctx, lockTree), &head); err != nil {
		return 0, err
	}
	edge, err := edgeOf(ctx, tx, head.Size)
	if err != nil {
		return 0, err
	}
	entries, err := d.number(ctx, tx, head.Size, limit, fresh)
	if err != nil || len(entries) == 0 { // another process took them
		return 0, err
	}
	grown, err := grow(head, edge, entries)
	if err != nil {
		return 0, err
	}
	for _, t := range grown.Tiles {
		if err := changeOne(tx.ExecContext(ctx, putTile, t.Level, t.N, t.Data)); err != nil {
			return 0, fmt.Errorf("tile %d/%d: %w", t.Level, t.N, err)
		}
	}
	return len(entries), changeOne(tx.ExecContext(ctx, putTree, grown.Head.Size, grown.Head.Root[:]))
}

func changeOne(r sql.Result, err error) error {
	n, err := Affected(r, err)
	if err == nil && n != 1 {
		err = errors.New("the tree would not grow")
	}
	return err
}

// LeavesOf returns the leaf of a post's outcome. A lost post has none without its intent: it began before the ledger
// logged.
func LeavesOf(ctx context.Context, tx *sql.Tx, r ledger.Record, text string, now time.Time) ([]ledger.Leaf, error) {
	if r.State == ledger.StateIndeterminate {
		var n int
		err := tx.QueryRowContext(ctx, selectHas, leaf.ID(leaf.Intent, r.ID)).Scan(&n)
		if err != nil {
			return nil, ledger.Unavailable("log the post", err)
		}
		if n == 0 {
			return nil, nil
		}
	}
	o, err := leaf.OfOutcome(r, text, now)
	if err != nil {
		return nil, ledger.Unavailable("log the post", err)
	}
	return []ledger.Leaf{o.Leaf(r.ID)}, nil
}

func scanHead(row *sql.Row, head *ledger.TreeHead, more ...any) error {
	var root []byte
	err := row.Scan(append([]any{&head.Size, &root}, more...)...)
	switch {
	case err != nil:
	case copy(head.Root[:], root) != len(head.Root):
		err = errors.New("the root of the log's tree is cut off")
	case head.Size < 0 || head.Size > ledger.MaxLeaves:
		err = fmt.Errorf("the log's tree cannot have %d entries", head.Size)
	}
	return err
}

// edgeOf reads the incomplete tiles of a tree.
func edgeOf(ctx context.Context, tx *sql.Tx, size int64) (edge []ledger.Tile, err error) {
	if size%width != 0 {
		edge = append(edge, ledger.Tile{Level: -1, N: size / width})
	}
	for level := 0; size > 0; level, size = level+1, size/width {
		if size%width != 0 {
			edge = append(edge, ledger.Tile{Level: level, N: size / width})
		}
	}
	for i := range edge {
		if err := tx.QueryRowContext(ctx, selectTile, edge[i].Level, edge[i].N).Scan(&edge[i].Data); err != nil {
			return nil, err
		}
	}
	return edge, nil
}

// width is that of a tile, in leaves of its subtree.
const width = 256

func (d Dialect) number(ctx context.Context, tx *sql.Tx, from int64, limit int, fresh []any) ([]string, error) {
	type leaf struct {
		number int64
		entry  string
	}
	var all []leaf
	rows, err := tx.QueryContext(ctx, d.Number, append(slices.Clip(fresh), from, limit)...)
	err = Each(rows, err, func() error {
		var l leaf
		err := rows.Scan(&l.number, &l.entry)
		all = append(all, l)
		return err
	})
	slices.SortFunc(all, func(a, b leaf) int { return cmp.Compare(a.number, b.number) })
	entries := make([]string, len(all))
	for i, l := range all {
		if entries[i] = l.entry; l.number != from+int64(i) && err == nil {
			err = fmt.Errorf("the log's entry %d is missing", from+int64(i))
		}
	}
	return entries, err
}

// PutCheckpoints implements [ledger.Log].
func PutCheckpoints(ctx context.Context, tx *sql.Tx, c ledger.Checkpoints) error {
	for _, put := range []struct {
		statement string
		ledger.Checkpoint
	}{{putSigned, c.Signed}, {putAccepted, c.Accepted}} {
		if put.Note == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, put.statement, put.Size, put.Note); err != nil {
			return ledger.Unavailable("store the log's checkpoint", err)
		}
	}
	return nil
}

// TreeHead implements [ledger.LogReader].
func (r Reader) TreeHead(ctx context.Context) (head ledger.TreeHead, c ledger.Checkpoints, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err = scanHead(r.db.QueryRowContext(ctx, selectTree), &head, &c.Signed.Size, &c.Signed.Note, &c.Accepted.Size,
		&c.Accepted.Note); err != nil {
		err = ledger.Unavailable("read the log", err)
	}
	return head, c, err
}

// Tiles implements [ledger.LogReader].
func (r Reader) Tiles(ctx context.Context, tiles []ledger.Tile) error {
	for i := range tiles {
		t := &tiles[i]
		err := r.one(ctx, selectTile, []any{t.Level, t.N}, &t.Data)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Leaf implements [ledger.LogReader].
func (r Reader) Leaf(ctx context.Context, id string) (ledger.Leaf, error) {
	f := ledger.Leaf{ID: id}
	if !Storable(id) {
		return f, ledger.ErrNotFound
	}
	err := r.one(ctx, `SELECT entry, opening, made, `+r.d.Index+` FROM leaves WHERE id = $1`, []any{id}, &f.Entry,
		&f.Opening, &f.Made, &f.Index)
	return f, err
}
