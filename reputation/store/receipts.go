package store

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// MaxReceipts bounds how many receipts one look at a chain returns.
const MaxReceipts = 1000

// Session is where the chain of a session stands.
type Session struct {
	Owner, Session, Agent string
	Next                  int64  // number of the receipt that is wanted: one more than there are
	Head                  string // hash of the last receipt
	Updated               time.Time
	Closed                bool // the last receipt closes the chain
	Forked                bool // there are two chains
}

// Receipt is one receipt in the chain of its session.
type Receipt struct {
	Owner, Session string
	Number         int64
	Hash           string
	Request        string // request_id
	Token          string
}

// Addition is a number of receipts that go on with a chain.
type Addition struct {
	Owner, Session, Agent string
	Receipts              []Receipt // in order; Owner and Session need not be set
	Closing               bool      // the last one closes the chain
	At                    time.Time
	// MaxSessions and MaxReceipts bound what the owner may have.
	MaxSessions, MaxReceipts int64
}

const selectSession = `SELECT owner, session, agent, next, head, updated, closed, forked FROM sessions `

func scanSession(scan func(...any) error) (s Session, err error) {
	var updated, closed, forked int64
	err = scan(&s.Owner, &s.Session, &s.Agent, &s.Next, &s.Head, &updated, &closed, &forked)
	s.Updated, s.Closed, s.Forked = time.UnixMilli(updated).UTC(), closed > 0, forked > 0
	return s, err
}

// Session returns where the chain of a session stands, or [ErrNotFound].
func (s *Store) Session(ctx context.Context, owner, session string) (Session, error) {
	const doing = "read the session"
	rows, err := s.query(ctx, selectSession+`WHERE owner = $1 AND session = $2`, owner, session)
	return first(list(doing, rows, err, scanSession))
}

// Sessions returns the sessions with this id, of different owners, the first limit of them.
func (s *Store) Sessions(ctx context.Context, session string, limit int) ([]Session, error) {
	const doing = "read the sessions"
	rows, err := s.query(ctx, selectSession+`WHERE session = $1 ORDER BY owner LIMIT $2`, session, limit)
	return list(doing, rows, err, scanSession)
}

const selectReceipt = `SELECT owner, session, number, hash, request, token FROM receipts `

func scanReceipt(scan func(...any) error) (r Receipt, err error) {
	err = scan(&r.Owner, &r.Session, &r.Number, &r.Hash, &r.Request, &r.Token)
	return r, err
}

// Receipts returns receipts of a session in their order, from a number on, at most limit and at most [MaxReceipts].
func (s *Store) Receipts(ctx context.Context, owner, session string, from int64, limit int) ([]Receipt, error) {
	const doing = "read the receipts"
	rows, err := s.query(ctx, selectReceipt+`WHERE owner = $1 AND session = $2 AND number >= $3 ORDER BY number LIMIT $4`,
		owner, session, from, min(limit, MaxReceipts))
	return list(doing, rows, err, scanReceipt)
}

// Receipt returns the receipt with this hash, or [ErrNotFound].
func (s *Store) Receipt(ctx context.Context, hash string) (Receipt, error) {
	const doing = "read the receipt"
	rows, err := s.query(ctx, selectReceipt+`WHERE hash = $1`, hash)
	return first(list(doing, rows, err, scanReceipt))
}

// Held is a receipt, when the last one of its session came, and whether there are two chains for the session.
type Held struct {
	Receipt
	Updated time.Time
	Forked  bool
}

// Held returns those of the receipts with some hashes that there are. There may be as many hashes as a document names, a few dozen.
func (s *Store) Held(ctx context.Context, hashes []string) ([]Held, error) {
	const doing = "read the receipts"
	if len(hashes) == 0 {
		return nil, nil
	}
	places, args := make([]string, len(hashes)), make([]any, len(hashes))
	for i, hash := range hashes {
		places[i], args[i] = fmt.Sprintf("$%d", i+1), hash
	}
	rows, err := s.query(ctx, `SELECT r.owner, r.session, r.number, r.hash, r.request, r.token, s.updated, s.forked FROM receipts AS r
		JOIN sessions AS s ON s.owner = r.owner AND s.session = r.session WHERE r.hash IN (`+strings.Join(places, ", ")+`) ORDER BY r.hash`, args...)
	return list(doing, rows, err, func(scan func(...any) error) (h Held, err error) {
		var updated, forked int64
		err = scan(&h.Owner, &h.Session, &h.Number, &h.Hash, &h.Request, &h.Token, &updated, &forked)
		h.Updated, h.Forked = moment(updated), forked > 0
		return h, err
	})
}

// Append goes on with a chain, with all receipts or none. It returns [ErrMoved] if the first of them is not the one that the session wants
// now, [ErrDuplicate] if one of the calls has a receipt, and [ErrFull] if the owner has no room.
func (s *Store) Append(ctx context.Context, a Addition) error {
	return s.transact(ctx, "add receipts", func(t tx) error { return t.add(a) })
}

func (t tx) add(a Addition) error {
	n := len(a.Receipts)
	if n == 0 {
		return nil
	}
	from, last, at := a.Receipts[0].Number, a.Receipts[n-1], a.At.UnixMilli()
	closed, begun := int64(0), int64(0)
	if a.Closing {
		closed = at
	}
	var err error
	if from == 1 {
		begun = 1
		err = t.one(ErrMoved, `INSERT INTO sessions (owner, session, agent, next, head, began, updated, closed, forked, sampled, entered)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0, 0) ON CONFLICT DO NOTHING`, a.Owner, a.Session, a.Agent, last.Number+1, last.Hash, at, at, closed)
	} else {
		// Of two transactions that add the same receipts, the second waits here and then finds that next has changed.
		err = t.one(ErrMoved, `UPDATE sessions SET next = $1, head = $2, updated = $3, closed = $4 WHERE owner = $5 AND session = $6 AND next = $7 AND forked = 0`,
			last.Number+1, last.Hash, at, closed, a.Owner, a.Session, from)
	}
	if err != nil {
		return err
	}
	rows := make([][]any, 0, n)
	for _, r := range a.Receipts {
		rows = append(rows, []any{a.Owner, a.Session, r.Number, r.Hash, r.Request, r.Token})
	}
	added, err := t.insert(`INSERT INTO receipts (owner, session, number, hash, request, token)`, rows)
	if err == nil && added != int64(n) {
		err = ErrDuplicate
	}
	if err != nil {
		return err
	}
	if err := t.know(a.Owner); err != nil {
		return err
	}
	return t.one(ErrFull, `UPDATE owners SET sessions = sessions + $1, receipts = receipts + $2
		WHERE owner = $3 AND (sessions < $4 OR $5 = 0) AND receipts <= $6`, begun, n, a.Owner, a.MaxSessions, begun, a.MaxReceipts-int64(n))
}

// know makes the row of an owner, unless it is there.
func (t tx) know(owner string) error {
	_, err := t.exec(`INSERT INTO owners (owner, sessions, receipts, samples, challenges) VALUES ($1, 0, 0, 0, 0) ON CONFLICT DO NOTHING`, owner)
	return err
}

// Fork keeps a receipt that contradicts the kept one of the same number. The chain of the session goes on no more. Only the first
// contradiction is kept.
func (s *Store) Fork(ctx context.Context, r Receipt, at time.Time) error {
	return s.transact(ctx, "keep the fork", func(t tx) error {
		if err := t.one(ErrNotFound, `UPDATE sessions SET forked = 1 WHERE owner = $1 AND session = $2`, r.Owner, r.Session); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO forks (owner, session, number, token, seen) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			r.Owner, r.Session, r.Number, r.Token, at.UnixMilli())
		return err
	})
}

// Forked returns the receipt that contradicts the chain of a session, or [ErrNotFound].
func (s *Store) Forked(ctx context.Context, owner, session string) (Receipt, error) {
	const doing = "read the fork"
	rows, err := s.query(ctx, `SELECT owner, session, number, token FROM forks WHERE owner = $1 AND session = $2`, owner, session)
	return first(list(doing, rows, err, func(scan func(...any) error) (r Receipt, err error) {
		err = scan(&r.Owner, &r.Session, &r.Number, &r.Token)
		return r, err
	}))
}
