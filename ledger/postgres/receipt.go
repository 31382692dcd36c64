package postgres

import (
	"context"
	"database/sql"

	"github.com/actionproof/mediator/ledger"
)

const (
	// receiptTables are made in a database, too, that an earlier program has made its tables in.
	receiptTables = `
CREATE TABLE actionproof.receipts (
	session text COLLATE "C" NOT NULL,
	number  bigint NOT NULL,
	call    text COLLATE "C" NOT NULL, -- id of a record, or of the session
	signed  bigint NOT NULL,           -- Unix milliseconds
	token   text NOT NULL,
	PRIMARY KEY (session, number)
);
CREATE INDEX receipts_signed ON actionproof.receipts (signed);
CREATE TABLE actionproof.open_calls (
	id       text COLLATE "C" PRIMARY KEY, -- of a record, or of a session
	instance text COLLATE "C" NOT NULL,    -- the process whose call it is
	session  text COLLATE "C" NOT NULL,
	started  bigint NOT NULL,              -- Unix milliseconds
	draft    text NOT NULL
);`
	insertOpenCalls = `
INSERT INTO actionproof.open_calls (id, instance, session, started, draft)
SELECT id, $1, session, started, draft FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) AS c (id, session, started, draft) ORDER BY id
ON CONFLICT DO NOTHING`
	insertReceipts = `
WITH added AS (SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[]) AS r (session, number, call, signed, token)),
     closed AS (DELETE FROM actionproof.open_calls WHERE id IN (SELECT call FROM added)),
     begun AS (INSERT INTO actionproof.deliveries (session, number, due, refused) SELECT session, 0, 0, '' FROM added WHERE number = 1 ORDER BY session ON CONFLICT DO NOTHING)
INSERT INTO actionproof.receipts (session, number, call, signed, token) SELECT session, number, call, signed, token FROM added
ON CONFLICT DO NOTHING`
	// selectForked sees what the insert has left, and what another transaction had committed before.
	selectForked = `
SELECT coalesce(min(r.session), '') FROM unnest($1::text[], $2::bigint[], $3::text[]) AS r (session, number, token)
LEFT JOIN actionproof.receipts AS kept ON kept.session = r.session AND kept.number = r.number AND kept.token = r.token WHERE kept.token IS NULL`
	selectOpen  = `SELECT id, session, started, draft FROM actionproof.open_calls WHERE instance = $1 ORDER BY started, id`
	selectChain = `SELECT session, number, call, signed, token FROM actionproof.receipts WHERE session = $1 AND number >= $2 ORDER BY number LIMIT $3`
	selectLast  = `SELECT session, number, call, signed, token FROM actionproof.receipts WHERE session = $1 ORDER BY number DESC LIMIT 1`
	// pruneReceipts removes whole chains: one of which the first receipts are missing could not be verified.
	pruneReceipts = `
WITH gone AS (DELETE FROM actionproof.receipts WHERE (session, number) IN (
	SELECT session, number FROM actionproof.receipts AS r WHERE signed < $1
	AND (SELECT signed FROM actionproof.receipts AS l WHERE l.session = r.session ORDER BY number DESC LIMIT 1) < $1 ORDER BY signed LIMIT $2
) RETURNING session, number)
SELECT count(*), count(*) FILTER (WHERE gone.number > d.number) FROM gone LEFT JOIN actionproof.deliveries AS d ON d.session = gone.session`
	// pruneOpenCalls removes what an instance has left that never came back.
	pruneOpenCalls = `DELETE FROM actionproof.open_calls WHERE id IN (SELECT id FROM actionproof.open_calls WHERE started < $1 LIMIT $2)`
)

// OpenCalls keeps that calls are open: see [ledger.Receipts].
func (l *Ledger) OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error { return l.open(ctx, tx, calls) })
}

func (l *Ledger) open(ctx context.Context, tx *sql.Tx, calls []ledger.OpenCall) error {
	if len(calls) == 0 {
		return nil
	}
	var ids, sessions, drafts []string
	var started []int64
	for _, c := range calls {
		if err := c.Check(); err != nil {
			return err
		}
		ids, sessions = append(ids, c.ID), append(sessions, c.Session)
		started, drafts = append(started, c.Started.UnixMilli()), append(drafts, c.Draft)
	}
	if _, err := tx.ExecContext(ctx, insertOpenCalls, l.o.Instance, ids, sessions, started, drafts); err != nil {
		return ledger.Unavailable("open a call", err)
	}
	return nil
}

// AddReceipts keeps receipts: see [ledger.Receipts].
func (l *Ledger) AddReceipts(ctx context.Context, receipts ...ledger.Receipt) error {
	return l.Write(ctx, nil, nil, receipts...)
}

// addReceipts keeps receipts in two statements, however many there are.
func addReceipts(ctx context.Context, tx *sql.Tx, receipts []ledger.Receipt) error {
	if len(receipts) == 0 {
		return nil
	}
	var sessions, calls, tokens []string
	var numbers, signed []int64
	for _, r := range receipts {
		if err := r.Check(); err != nil {
			return err
		}
		sessions, numbers, calls = append(sessions, r.Session), append(numbers, r.Number), append(calls, r.Call)
		signed, tokens = append(signed, r.Signed.UnixMilli()), append(tokens, r.Token)
	}
	_, err := tx.ExecContext(ctx, insertReceipts, sessions, numbers, calls, signed, tokens)
	var forked string
	if err == nil {
		err = tx.QueryRowContext(ctx, selectForked, sessions, numbers, tokens).Scan(&forked)
	}
	switch {
	case err != nil:
		return ledger.Unavailable("write the receipt", err)
	case forked != "":
		return &ledger.ForkedError{Session: forked}
	}
	return nil
}

// LeftOpen returns the calls that are open: see [ledger.Receipts].
func (l *Ledger) LeftOpen(ctx context.Context) ([]ledger.OpenCall, error) {
	return look(ctx, l, func(ctx context.Context) ([]ledger.OpenCall, error) {
		return ledger.ScanOpenCalls(l.db.QueryContext(ctx, selectOpen, l.o.Instance))
	})
}

// Chain returns receipts of a session: see [ledger.Receipts].
func (l *Ledger) Chain(ctx context.Context, session string, from int64, limit int) ([]ledger.Receipt, error) {
	if !storable(session) {
		return nil, nil
	}
	return look(ctx, l, func(ctx context.Context) ([]ledger.Receipt, error) {
		return ledger.ScanReceipts(l.db.QueryContext(ctx, selectChain, session, from, min(limit, ledger.MaxChain)))
	})
}

// LastReceipt returns the last receipt of a session: see [ledger.Receipts].
func (l *Ledger) LastReceipt(ctx context.Context, session string) (ledger.Receipt, error) {
	if !storable(session) {
		return ledger.Receipt{}, ledger.ErrNotFound
	}
	return look(ctx, l, func(ctx context.Context) (ledger.Receipt, error) {
		return ledger.One(ledger.ScanReceipts(l.db.QueryContext(ctx, selectLast, session)))
	})
}
