package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

const (
	insertOpenCalls = `
INSERT INTO open_calls (id, instance, session, started, draft)
SELECT id, $1, session, started, draft
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) AS c (id, session, started, draft) ORDER BY id
ON CONFLICT DO NOTHING`
	insertReceipts = `
WITH added AS (SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[])
	AS r (session, number, call, signed, token)),
     closed AS (DELETE FROM open_calls WHERE id IN (SELECT call FROM added)),
     begun AS (INSERT INTO deliveries (session, number, due, refused)
	SELECT session, 0, 0, '' FROM added WHERE number = 1 ORDER BY session ON CONFLICT DO NOTHING)
INSERT INTO receipts (session, number, call, signed, token) SELECT session, number, call, signed, token FROM added
ON CONFLICT DO NOTHING`
	// selectForked sees the rows of the insert and of earlier commits.
	selectForked = `
SELECT coalesce(min(r.session), '') FROM unnest($1::text[], $2::bigint[], $3::text[]) AS r (session, number, token)
LEFT JOIN receipts AS kept ON kept.session = r.session AND kept.number = r.number AND kept.token = r.token
WHERE kept.token IS NULL`
	selectOpen = `SELECT id, session, started, draft FROM open_calls WHERE instance = $1 ORDER BY started, id`
	// pruneReceipts removes whole chains: without its beginning, none can be verified.
	pruneReceipts = `
WITH gone AS (DELETE FROM receipts WHERE (session, number) IN (
	SELECT session, number FROM receipts AS r WHERE signed < $1
	AND (SELECT signed FROM receipts AS l WHERE l.session = r.session ORDER BY number DESC LIMIT 1) < $1
	ORDER BY signed LIMIT $2
) RETURNING session, number)
SELECT count(*), count(*) FILTER (WHERE gone.number > d.number)
FROM gone LEFT JOIN deliveries AS d ON d.session = gone.session`
	// claimDeliveries skips rows that another process is claiming.
	claimDeliveries = `
UPDATE deliveries AS claimed SET due = $2 FROM (
	SELECT session, due FROM deliveries AS d
	WHERE due <= $1
	AND number < (SELECT number FROM receipts AS r WHERE r.session = d.session ORDER BY number DESC LIMIT 1)
	ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED
) AS due WHERE claimed.session = due.session RETURNING claimed.session, claimed.number, claimed.due, claimed.refused`
	// pruneOpenCalls removes calls of instances that never came back.
	pruneOpenCalls = `DELETE FROM open_calls WHERE id IN (SELECT id FROM open_calls WHERE started < $1 LIMIT $2)`
)

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
		if c.ID == c.Session && l.o.Chains != "" {
			if err := files.Replace(l.chain(c.Session), nil, 0o600); err != nil {
				return ledger.Unavailable("open a call", err)
			}
		}
		ids, sessions = append(ids, c.ID), append(sessions, c.Session)
		started, drafts = append(started, c.Started.UnixMilli()), append(drafts, l.sealed(c))
	}
	if _, err := tx.ExecContext(ctx, insertOpenCalls, l.name, ids, sessions, started, drafts); err != nil {
		return ledger.Unavailable("open a call", err)
	}
	return nil
}

// chain returns the file that says that a session's chain has not ended.
func (l *Ledger) chain(session string) string { return filepath.Join(l.o.Chains, session) }

func (l *Ledger) ended(receipts []ledger.Receipt) {
	for _, r := range receipts {
		if r.Call == r.Session && l.o.Chains != "" {
			_ = os.Remove(l.chain(r.Session)) // if it stays, the last receipt still shows the end
		}
	}
}

func (l *Ledger) AddReceipts(ctx context.Context, receipts ...ledger.Receipt) error {
	return l.Write(ctx, nil, nil, receipts...)
}

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

// LeftOpen implements [ledger.Store]. It leaves out what other users of the database wrote, altered, or put back after
// the end of the chain.
func (l *Ledger) LeftOpen(ctx context.Context) (own []ledger.OpenCall, err error) {
	ctx, cancel := context.WithTimeout(ctx, operation)
	defer cancel()
	all, err := tables.OpenCalls(l.db.QueryContext(ctx, selectOpen, l.name))
	for _, c := range all {
		stored := c.Draft
		if c.Draft = stored[min(len(stored), 2*sha256.Size):]; !hmac.Equal([]byte(l.sealed(c)), []byte(stored)) {
			continue
		}
		if _, gone := os.Stat(l.chain(c.Session)); l.o.Chains == "" || gone == nil {
			own = append(own, c)
		}
	}
	if err == nil && l.o.Chains != "" {
		err = l.forgetOthers(own)
	}
	return own, err
}

// forgetOthers removes the files of chains whose beginning was not stored.
func (l *Ledger) forgetOthers(own []ledger.OpenCall) error {
	all, err := os.ReadDir(l.o.Chains)
	for _, f := range all {
		if err == nil && !slices.ContainsFunc(own, func(c ledger.OpenCall) bool { return c.Session == f.Name() }) {
			err = os.Remove(l.chain(f.Name()))
		}
	}
	if err != nil {
		return ledger.Unavailable("read the open chains", err)
	}
	return nil
}

// sealed returns the draft of a call as it is stored, after an HMAC.
func (l *Ledger) sealed(c ledger.OpenCall) string {
	mac := hmac.New(sha256.New, []byte(l.o.Instance))
	fmt.Fprintf(mac, "%q %q %s", c.ID, c.Session, c.Draft)
	return hex.EncodeToString(mac.Sum(nil)) + c.Draft
}

func (l *Ledger) ClaimDeliveries(ctx context.Context, now, until time.Time, limit int) (claimed []ledger.Delivery,
	err error) {
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		claimed, err = tables.Deliveries(tx.QueryContext(ctx, claimDeliveries, now.UnixMilli(), until.UnixMilli(),
			limit))
		return err
	})
	return claimed, err
}

func (l *Ledger) SettleDeliveries(ctx context.Context, all ...ledger.Delivery) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error { return tables.SettleDeliveries(ctx, tx, all) })
}

func (l *Ledger) Backlog(ctx context.Context) (ledger.Backlog, error) {
	b, err := l.Reader.Backlog(ctx)
	b.Pruned = l.pruned.Load()
	return b, err
}
