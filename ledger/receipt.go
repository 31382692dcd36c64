package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// MaxChain bounds how many receipts one look at a chain returns.
const MaxChain = 1000

// OpenCall is a call of which a receipt is to be made, or a session whose chain is to be closed by one. It is durable before the call is
// sent, so that a crash leaves no call without a receipt, and no chain without its end.
type OpenCall struct {
	ID      string // of the record of the call, or of the session
	Session string
	Started time.Time
	Draft   string // what is known before the call is sent, as whoever signs the receipt keeps it
}

// Check refuses an open call that lacks its id, its session or its start.
func (c OpenCall) Check() error {
	if c.ID == "" || c.Session == "" || c.Started.IsZero() {
		return Unavailable("open a call", errors.New("it lacks its id, session or start"))
	}
	return nil
}

// Receipt is one interaction receipt in the chain of its session.
type Receipt struct {
	Session string    `json:"session"`
	Number  int64     `json:"number"` // in the chain: rises by one
	Call    string    `json:"call"`   // id of the record of the call; of the end of a session the session's id
	Signed  time.Time `json:"signed"` // to the millisecond
	Token   string    `json:"token"`
}

// Standing is where the chain of a session's receipts stood when a post was attested.
type Standing struct {
	Number int64    `json:"number"`         // of the last receipt; 0 if there was none
	Head   string   `json:"head,omitempty"` // its hash
	Open   []string `json:"open,omitempty"` // the calls that had no receipt then
}

// Check refuses a receipt that lacks a part.
func (r Receipt) Check() error {
	if r.Session == "" || r.Call == "" || r.Token == "" || r.Signed.IsZero() {
		return Unavailable("write the receipt", errors.New("it lacks its session, call, time or token"))
	}
	return nil
}

// Receipts keeps the chains of interaction receipts, and which calls are open. Its methods are safe for concurrent use.
type Receipts interface {
	// OpenCalls keeps that calls are open, durably, in one transaction. What is open already is left as it is.
	OpenCalls(ctx context.Context, calls ...OpenCall) error
	// AddReceipts keeps receipts, and closes their calls, all in one transaction or none. A receipt that is kept already is left as it is, so
	// a write whose outcome is unknown can be tried again. One that has another token than the kept one of its number is a [*ForkedError].
	AddReceipts(ctx context.Context, receipts ...Receipt) error
	// LeftOpen returns the calls that this instance has open, the first first.
	LeftOpen(ctx context.Context) ([]OpenCall, error)
	// Chain returns receipts of a session in their order, from a number on: at most [MaxChain], and not more than limit.
	Chain(ctx context.Context, session string, from int64, limit int) ([]Receipt, error)
	// LastReceipt returns the last receipt of a session. Where there is none, it returns [ErrNotFound].
	LastReceipt(ctx context.Context, session string) (Receipt, error)
}

// receiptTables are made when a ledger is opened, in one too that an earlier program has made.
const receiptTables = `
CREATE TABLE IF NOT EXISTS receipts (
	seq     INTEGER PRIMARY KEY,
	session TEXT NOT NULL,
	number  INTEGER NOT NULL,
	call    TEXT NOT NULL,    -- id of a record, or of the session
	signed  INTEGER NOT NULL, -- Unix milliseconds
	token   TEXT NOT NULL,
	UNIQUE (session, number)
);
CREATE TABLE IF NOT EXISTS open_calls (
	id      TEXT PRIMARY KEY, -- of a record, or of a session
	session TEXT NOT NULL,
	started INTEGER NOT NULL, -- Unix milliseconds
	draft   TEXT NOT NULL
)`

const (
	insertOpenCall = `INSERT INTO open_calls (id, session, started, draft) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
	deleteOpenCall = `DELETE FROM open_calls WHERE id = ?`
	insertReceipt  = `INSERT INTO receipts (session, number, call, signed, token) VALUES (?, ?, ?, ?, ?)`
	selectOpen     = `SELECT id, session, started, draft FROM open_calls ORDER BY started, id`
	selectChain    = `SELECT session, number, call, signed, token FROM receipts WHERE session = ? AND number >= ? ORDER BY number LIMIT ?`
	selectLast     = `SELECT session, number, call, signed, token FROM receipts WHERE session = ? ORDER BY number DESC LIMIT 1`
	selectToken    = `SELECT token FROM receipts WHERE session = ? AND number = ?`

	// pruneReceipts removes whole chains: one of which the first receipts are missing could not be verified. It looks at the oldest rows, which
	// are the first: an index would cost each receipt more.
	pruneReceipts = `DELETE FROM receipts WHERE seq IN (SELECT seq FROM (SELECT seq, session FROM receipts ORDER BY seq LIMIT ?3) AS r
		WHERE (SELECT signed FROM receipts AS l WHERE l.session = r.session ORDER BY number DESC LIMIT 1) < ?1 LIMIT ?2)
		RETURNING number > coalesce((SELECT number FROM deliveries AS d WHERE d.session = receipts.session), number)`
)

// OpenCalls keeps that calls are open: see [Receipts].
func (l *Ledger) OpenCalls(ctx context.Context, calls ...OpenCall) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error { return l.open(tx, calls) })
}

func (l *Ledger) open(tx *sql.Tx, calls []OpenCall) error {
	for _, c := range calls {
		if err := c.Check(); err != nil {
			return err
		}
		if _, err := tx.Stmt(l.insertOpenCall).Exec(c.ID, c.Session, c.Started.UnixMilli(), c.Draft); err != nil {
			return Unavailable("open a call", err)
		}
	}
	return nil
}

// AddReceipts keeps receipts: see [Receipts].
func (l *Ledger) AddReceipts(ctx context.Context, receipts ...Receipt) error {
	return l.Write(ctx, nil, nil, receipts...)
}

func (l *Ledger) addReceipts(tx *sql.Tx, receipts []Receipt) error {
	for _, r := range receipts {
		if err := l.addReceipt(tx, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) addReceipt(tx *sql.Tx, r Receipt) error {
	if err := r.Check(); err != nil {
		return err
	}
	_, err := tx.Stmt(l.insertReceipt).Exec(r.Session, r.Number, r.Call, r.Signed.UnixMilli(), r.Token)
	if isConstraint(err) {
		var kept string
		if err = tx.QueryRow(selectToken, r.Session, r.Number).Scan(&kept); err == nil && kept != r.Token {
			return &ForkedError{r.Session}
		}
	}
	if err == nil {
		_, err = tx.Stmt(l.deleteOpenCall).Exec(r.Call)
	}
	if err == nil && r.Number == 1 {
		_, err = tx.Stmt(l.insertDelivery).Exec(r.Session)
	}
	if err != nil {
		return Unavailable("write the receipt", err)
	}
	return nil
}

// LeftOpen returns the calls that are open: see [Receipts].
func (l *Ledger) LeftOpen(ctx context.Context) ([]OpenCall, error) {
	return ScanOpenCalls(l.db.Read().QueryContext(ctx, selectOpen))
}

// Chain returns receipts of a session: see [Receipts].
func (r reader) Chain(ctx context.Context, session string, from int64, limit int) ([]Receipt, error) {
	if r.early {
		return nil, nil
	}
	return ScanReceipts(r.db.QueryContext(ctx, selectChain, session, from, min(limit, MaxChain)))
}

// LastReceipt returns the last receipt of a session: see [Receipts].
func (r reader) LastReceipt(ctx context.Context, session string) (Receipt, error) {
	if r.early {
		return Receipt{}, ErrNotFound
	}
	return One(ScanReceipts(r.db.QueryContext(ctx, selectLast, session)))
}

// ScanOpenCalls reads the rows of open calls: id, session, start and draft.
func ScanOpenCalls(rows *sql.Rows, err error) ([]OpenCall, error) {
	var all []OpenCall
	err = each(rows, err, func() error {
		var c OpenCall
		var started int64
		err := rows.Scan(&c.ID, &c.Session, &started, &c.Draft)
		c.Started = time.UnixMilli(started).UTC()
		all = append(all, c)
		return err
	})
	return all, err
}

// ScanReceipts reads the rows of receipts: session, number, call, time and token.
func ScanReceipts(rows *sql.Rows, err error) ([]Receipt, error) {
	var all []Receipt
	err = each(rows, err, func() error {
		var r Receipt
		var signed int64
		err := rows.Scan(&r.Session, &r.Number, &r.Call, &signed, &r.Token)
		r.Signed = time.UnixMilli(signed).UTC()
		all = append(all, r)
		return err
	})
	return all, err
}

// One returns the one receipt of a list. Where it is empty, it returns [ErrNotFound].
func One(receipts []Receipt, err error) (Receipt, error) {
	switch {
	case err != nil:
		return Receipt{}, err
	case len(receipts) == 0:
		return Receipt{}, ErrNotFound
	}
	return receipts[0], nil
}
