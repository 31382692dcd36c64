package store

import (
	"context"
	"time"

	"github.com/actionproof/mediator/internal/db"
)

const MaxReceipts = 1000

// Session is the state of a session's chain.
type Session struct {
	Owner, Session, Agent string
	Next                  int64
	Updated               time.Time
	Closed                bool
	Forked                bool // it has two chains
}

// Receipt is a receipt in the chain of its session.
type Receipt struct {
	Owner, Session string
	Number         int64
	Hash           string
	Request        string // request_id
	Token          string
}

// Addition is receipts that continue a chain.
type Addition struct {
	Owner, Session, Agent string
	Receipts              []Receipt // in order; without Owner and Session
	Closing               bool      // the last one closes the chain
	At                    time.Time
	// MaxSessions and MaxReceipts bound the owner's.
	MaxSessions, MaxReceipts int64
}

const selectSession = `SELECT owner, session, agent, next, updated, closed > 0, forked > 0 FROM sessions `

// Session returns a session, or [ErrNotFound].
func (s *Store) Session(ctx context.Context, owner, session string) (Session, error) {
	return db.One[Session](ctx, s.db, "read the session",
		selectSession+`WHERE owner = $1 AND session = $2`, owner, session)
}

// Sessions returns the sessions with this id of an owner, or of all owners if it is empty, at most limit.
func (s *Store) Sessions(ctx context.Context, owner, session string, limit int) ([]Session, error) {
	return db.Many[Session](ctx, s.db, "read the sessions",
		selectSession+`WHERE session = $1 AND (owner = $2 OR $2 = '') ORDER BY owner LIMIT $3`, session, owner, limit)
}

const selectReceipt = `SELECT owner, session, number, hash, request, token FROM receipts `

// Receipts returns the receipts of a session from a number on, in order, at most limit and at most [MaxReceipts].
func (s *Store) Receipts(ctx context.Context, owner, session string, from int64, limit int) ([]Receipt, error) {
	return db.Many[Receipt](ctx, s.db, "read the receipts",
		selectReceipt+`WHERE owner = $1 AND session = $2 AND number >= $3 ORDER BY number LIMIT $4`,
		owner, session, from, min(limit, MaxReceipts))
}

// Receipt returns the receipt with this hash, or [ErrNotFound].
func (s *Store) Receipt(ctx context.Context, hash string) (Receipt, error) {
	return db.One[Receipt](ctx, s.db, "read the receipt", selectReceipt+`WHERE hash = $1`, hash)
}

// Held is a receipt, the time of its session's last receipt, and whether the session has two chains.
type Held struct {
	Receipt
	Updated time.Time
	Forked  bool
}

// Held returns the receipts with these hashes, which must be a few dozen at most.
func (s *Store) Held(ctx context.Context, hashes []string) ([]Held, error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	args := make([]any, len(hashes))
	for i, hash := range hashes {
		args[i] = hash
	}
	return db.Many[Held](ctx, s.db, "read the receipts", `SELECT r.owner, r.session, r.number, r.hash, r.request, r.token,
		s.updated, s.forked > 0 FROM receipts AS r
		JOIN sessions AS s ON s.owner = r.owner AND s.session = r.session WHERE r.hash IN (`+db.Places(1, len(args))+`)
		ORDER BY r.hash`, args...)
}

// Append continues a chain with all receipts or none. It returns [ErrMoved] if the first is not the session's next one,
// [ErrDuplicate] if one of the calls has a receipt, and [ErrFull] if the owner has no room.
func (s *Store) Append(ctx context.Context, a Addition) error {
	return s.db.Write(ctx, "add receipts", func(t db.Tx) error { return add(t, a) })
}

func add(t db.Tx, a Addition) error {
	n := len(a.Receipts)
	if n == 0 {
		return nil
	}
	from, last, closed, begun := a.Receipts[0].Number, a.Receipts[n-1], time.Time{}, 0
	if a.Closing {
		closed = a.At
	}
	var err error
	if from == 1 {
		begun = 1
		err = t.One(ErrMoved, `INSERT INTO sessions (owner, session, agent, next, updated, closed, forked, entered)
			VALUES ($1, $2, $3, $4, $5, $6, 0, 0) ON CONFLICT DO NOTHING`,
			a.Owner, a.Session, a.Agent, last.Number+1, a.At, closed)
	} else {
		// A concurrent transaction with the same receipts waits here and then finds that next has changed.
		err = t.One(ErrMoved, `UPDATE sessions SET next = $1, updated = $2, closed = $3
			WHERE owner = $4 AND session = $5 AND next = $6 AND forked = 0`,
			last.Number+1, a.At, closed, a.Owner, a.Session, from)
	}
	if err != nil {
		return err
	}
	rows := make([][]any, 0, n)
	for _, r := range a.Receipts {
		rows = append(rows, []any{a.Owner, a.Session, r.Number, r.Hash, r.Request, r.Token})
	}
	added, err := t.Insert(`INSERT INTO receipts (owner, session, number, hash, request, token)`, rows)
	if err == nil && added != int64(n) {
		err = ErrDuplicate
	}
	if err != nil {
		return err
	}
	return t.Run(known(a.Owner), db.Statement{Query: `UPDATE owners SET sessions = sessions + $1, receipts = receipts + $2
		WHERE owner = $3 AND (sessions < $4 OR $5 = 0) AND receipts <= $6`,
		Args: []any{begun, n, a.Owner, a.MaxSessions, begun, a.MaxReceipts - int64(n)}, None: ErrFull})
}

// known makes the row of an owner, unless there is one.
func known(owner string) db.Statement {
	return db.Statement{Query: `INSERT INTO owners (owner, sessions, receipts, samples, challenges)
		VALUES ($1, 0, 0, 0, 0) ON CONFLICT DO NOTHING`, Args: []any{owner}}
}

// Fork keeps the first receipt that contradicts a kept one of the same number. It ends the session's chain.
func (s *Store) Fork(ctx context.Context, r Receipt, at time.Time) error {
	return s.db.Write(ctx, "keep the fork", func(t db.Tx) error {
		return t.Run(
			db.Statement{Query: `UPDATE sessions SET forked = 1 WHERE owner = $1 AND session = $2`,
				Args: []any{r.Owner, r.Session}, None: ErrNotFound},
			db.Statement{Query: `INSERT INTO forks (owner, session, number, token, seen) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT DO NOTHING`, Args: []any{r.Owner, r.Session, r.Number, r.Token, at}})
	})
}

// Forked returns the receipt that contradicts the chain of a session, or [ErrNotFound].
func (s *Store) Forked(ctx context.Context, owner, session string) (Receipt, error) {
	return db.One[Receipt](ctx, s.db, "read the fork",
		`SELECT owner, session, number, '', '', token FROM forks WHERE owner = $1 AND session = $2`, owner, session)
}
