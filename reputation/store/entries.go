package store

import (
	"context"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// Entry is an entry in the log of an agent.
type Entry struct {
	Agent  string
	Number int64
	Head   string
	Text   string
}

// Unentered returns an owner's closed sessions, with one chain, that were not entered or have grown since.
func (s *Store) Unentered(ctx context.Context, owner string, limit int) ([]Session, error) {
	return db.Many[Session](ctx, s.db, "read the closed sessions",
		selectSession+`WHERE owner = $1 AND closed > 0 AND forked = 0 AND entered < next ORDER BY closed, session LIMIT $2`,
		owner, limit)
}

// Enter marks a session as entered, and adds its entry (or none) to a log and its sample (or none) to those of its
// owner, or does nothing. A second sample is ignored. It returns [ErrMoved] if the session was entered or changed, or
// the log has gone on.
func (s *Store) Enter(ctx context.Context, of Session, sample *autonomy.Sample, e *Entry) error {
	return s.db.Write(ctx, "enter the session", func(t db.Tx) error {
		err := t.One(ErrMoved,
			`UPDATE sessions SET entered = next WHERE owner = $1 AND session = $2 AND next = $3 AND closed > 0 AND forked = 0
				AND entered < next`,
			of.Owner, of.Session, of.Next)
		if err == nil && e != nil {
			err = t.One(ErrMoved,
				`INSERT INTO entries (agent, number, head, entry) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
				e.Agent, e.Number, e.Head, e.Text)
		}
		if err != nil || sample == nil {
			return err
		}
		added, err := t.Exec(
			`INSERT INTO samples (owner, session, closed, sample) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			of.Owner, of.Session, of.Updated, db.JSON{Of: sample})
		if err == nil && added > 0 {
			_, err = t.Exec(`UPDATE owners SET samples = samples + 1 WHERE owner = $1`, of.Owner)
		}
		return err
	})
}

const MaxEntries = 1000

// Entries returns the entries of an agent's log from a number on, at most [MaxEntries], or [ErrNotFound].
func (s *Store) Entries(ctx context.Context, agent string, from int64) ([]Entry, error) {
	return db.Many[Entry](ctx, s.db, "read the log",
		`SELECT agent, number, head, entry FROM entries WHERE agent = $1 AND number >= $2 ORDER BY number LIMIT $3`, agent,
		from, MaxEntries)
}

// Agents returns the ids after a text of the agents with a log, sorted by bytes, at most limit.
func (s *Store) Agents(ctx context.Context, after string, limit int) ([]string, error) {
	return db.Many[string](ctx, s.db, "read the agents",
		`SELECT agent FROM entries WHERE number = 1 AND agent > $1 ORDER BY agent LIMIT $2`, after, limit)
}

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
