package store

import (
	"context"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// Baseline is a snapshot of an owner's sessions.
type Baseline struct {
	Hash, Owner string
	Number      int64
	Made        time.Time
	Samples     int64
	Document    string
}

// Samples returns the samples of an owner's last closed sessions, at most limit, the last one first.
func (s *Store) Samples(ctx context.Context, owner string, limit int) ([]autonomy.Sample, error) {
	return db.Objects[autonomy.Sample](ctx, s.db, "read the samples",
		`SELECT sample FROM samples WHERE owner = $1 ORDER BY closed DESC, session DESC LIMIT $2`, owner, limit)
}

// Grown is an owner with samples.
type Grown struct {
	Owner   string
	Samples int64
}

// Grown returns the number of samples of each owner.
func (s *Store) Grown(ctx context.Context) ([]Grown, error) {
	return db.Many[Grown](ctx, s.db, "count the samples",
		`SELECT owner, samples FROM owners WHERE samples > 0 ORDER BY owner`)
}

const selectBaseline = `SELECT hash, owner, number, made, samples, document FROM baselines `

// AddBaseline keeps a snapshot, or returns [ErrMoved] if the owner has one with this number or hash.
func (s *Store) AddBaseline(ctx context.Context, b Baseline) error {
	return s.db.Write(ctx, "keep the baseline", func(t db.Tx) error {
		return t.One(ErrMoved,
			`INSERT INTO baselines (hash, owner, number, made, samples, document) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT DO NOTHING`,
			b.Hash, b.Owner, b.Number, b.Made, b.Samples, b.Document)
	})
}

// Baseline returns the snapshot with this hash, or [ErrNotFound].
func (s *Store) Baseline(ctx context.Context, hash string) (Baseline, error) {
	return db.One[Baseline](ctx, s.db, "read the baseline",
		selectBaseline+`WHERE hash = $1`, hash)
}

// LastBaseline returns the last snapshot of an owner, or [ErrNotFound].
func (s *Store) LastBaseline(ctx context.Context, owner string) (Baseline, error) {
	return db.One[Baseline](ctx, s.db, "read the baseline",
		selectBaseline+`WHERE owner = $1 ORDER BY number DESC LIMIT 1`, owner)
}
