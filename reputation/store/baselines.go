package store

import (
	"context"
	"time"
)

// Sample is what one closed session gives to the baselines of its owner.
type Sample struct {
	Owner, Session string
	Closed         time.Time
	Text           string // JSON; empty where the session gives none
}

// Baseline is one snapshot of what the sessions of an owner are like.
type Baseline struct {
	Hash, Owner string
	Number      int64 // of the owner's, from 1
	Made        time.Time
	Samples     int64  // how many the owner had ever given
	Document    string // JSON
}

// Unsampled returns closed sessions that have not given their sample, the first closed first, at most limit.
func (s *Store) Unsampled(ctx context.Context, limit int) ([]Session, error) {
	const doing = "read the closed sessions"
	rows, err := s.query(ctx, selectSession+`WHERE closed > 0 AND sampled = 0 ORDER BY closed LIMIT $1`, limit)
	return list(doing, rows, err, scanSession)
}

// AddSample keeps what a session gives. Each session gives once: a second time nothing happens.
func (s *Store) AddSample(ctx context.Context, one Sample) error {
	return s.transact(ctx, "keep the sample", func(t tx) error {
		n, err := t.exec(`UPDATE sessions SET sampled = 1 WHERE owner = $1 AND session = $2 AND sampled = 0`, one.Owner, one.Session)
		if err != nil || n == 0 || one.Text == "" {
			return err
		}
		if _, err := t.exec(`INSERT INTO samples (owner, session, closed, sample) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			one.Owner, one.Session, one.Closed.UnixMilli(), one.Text); err != nil {
			return err
		}
		_, err = t.exec(`UPDATE owners SET samples = samples + 1 WHERE owner = $1`, one.Owner)
		return err
	})
}

// Samples returns the samples of an owner whose sessions were closed last, at most limit, in the order in which they were closed.
func (s *Store) Samples(ctx context.Context, owner string, limit int) ([]Sample, error) {
	const doing = "read the samples"
	rows, err := s.query(ctx, `SELECT owner, session, closed, sample FROM (
		SELECT owner, session, closed, sample FROM samples WHERE owner = $1 ORDER BY closed DESC, session DESC LIMIT $2) AS l ORDER BY closed, session`, owner, limit)
	return list(doing, rows, err, func(scan func(...any) error) (one Sample, err error) {
		var closed int64
		err = scan(&one.Owner, &one.Session, &closed, &one.Text)
		one.Closed = moment(closed)
		return one, err
	})
}

// Grown is an owner with samples.
type Grown struct {
	Owner   string
	Samples int64 // that it has ever given
}

// Grown returns how many samples each owner has given.
func (s *Store) Grown(ctx context.Context) ([]Grown, error) {
	const doing = "count the samples"
	rows, err := s.query(ctx, `SELECT owner, samples FROM owners WHERE samples > 0 ORDER BY owner`)
	return list(doing, rows, err, func(scan func(...any) error) (g Grown, err error) {
		err = scan(&g.Owner, &g.Samples)
		return g, err
	})
}

const selectBaseline = `SELECT hash, owner, number, made, samples, document FROM baselines `

func scanBaseline(scan func(...any) error) (b Baseline, err error) {
	var made int64
	err = scan(&b.Hash, &b.Owner, &b.Number, &made, &b.Samples, &b.Document)
	b.Made = moment(made)
	return b, err
}

// AddBaseline keeps a snapshot. It returns [ErrMoved] if the owner has one with this number or this hash.
func (s *Store) AddBaseline(ctx context.Context, b Baseline) error {
	return s.transact(ctx, "keep the baseline", func(t tx) error {
		return t.one(ErrMoved, `INSERT INTO baselines (hash, owner, number, made, samples, document) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
			b.Hash, b.Owner, b.Number, b.Made.UnixMilli(), b.Samples, b.Document)
	})
}

// Baseline returns the snapshot with this hash, or [ErrNotFound].
func (s *Store) Baseline(ctx context.Context, hash string) (Baseline, error) {
	const doing = "read the baseline"
	rows, err := s.query(ctx, selectBaseline+`WHERE hash = $1`, hash)
	return first(list(doing, rows, err, scanBaseline))
}

// LastBaseline returns the last snapshot of an owner, or [ErrNotFound].
func (s *Store) LastBaseline(ctx context.Context, owner string) (Baseline, error) {
	const doing = "read the baseline"
	rows, err := s.query(ctx, selectBaseline+`WHERE owner = $1 ORDER BY number DESC LIMIT 1`, owner)
	return first(list(doing, rows, err, scanBaseline))
}
