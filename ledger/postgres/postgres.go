// Package postgres keeps the ledger in a PostgreSQL database that several processes share: the replicas of a sidecar or
// of an API. Together they keep the promises of package ledger.
//
// The first start needs CREATE on the database. Afterwards the role needs USAGE on the schema actionproof, and SELECT,
// INSERT, UPDATE and DELETE on its tables. A failover to a standby keeps the promises only if commits wait for that
// standby (synchronous_standby_names); a restored copy never does.
package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// Options configure a [Ledger].
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Retention bounds the age of records; zero keeps them for ever.
	Retention time.Duration
	// Instance identifies this process, also after a restart. Required. The database gets only its hash: an
	// attacker who can write open calls there, and knows Instance, gets false receipts signed.
	Instance string
	// Chains is a folder of this process alone, for the names of chains of receipts that have not ended. Without it,
	// an attacker who puts the open calls of an ended chain back into the database gets them signed again.
	Chains string
	// Logged is called after leaves of the transparency log were stored. With it, the ledger keeps one for each intent
	// and each outcome. It must not wait.
	Logged func()
	// Ended is called after ends of calls were stored. With it, the ledger lists their records: see [ledger.Exports].
	// It must not wait.
	Ended func()
}

// Ledger is the [ledger.Store] in a PostgreSQL database. During an outage of the database calls fail.
type Ledger struct {
	tables.Reader
	pool
	o      Options
	name   string       // of this process in the database
	pruned atomic.Int64 // receipts removed undelivered
}

var _ ledger.Identified = (*Ledger)(nil)

// Open connects to the database that dsn names (a URL or keyword/value string of libpq), and creates missing tables.
// It refuses another schema version, a database that does not commit durably, and a remote one without
// sslmode=verify-full. Posts that this instance left in flight become indeterminate. Errors do not show dsn.
func Open(ctx context.Context, dsn string, o Options) (*Ledger, error) {
	if o.Now == nil || o.Instance == "" {
		return nil, errors.New("postgres: a clock and the name of this instance are required")
	}
	if o.Chains != "" {
		if err := os.MkdirAll(o.Chains, 0o700); err != nil {
			return nil, ledger.Unavailable("open", err)
		}
	}
	db, err := connect(dsn, ledgerSchema.Name)
	if err != nil {
		return nil, ledger.Unavailable("connect", err)
	}
	name := sha256.Sum256([]byte(o.Instance))
	l := &Ledger{Reader: tables.NewReader(db, dialect), pool: pool{db: db}, o: o, name: hex.EncodeToString(name[:])}
	err = l.ensure(ctx, ledgerSchema)
	if err == nil {
		err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, tables.InsertIdentity, rand.Text())
			if err == nil {
				_, err = tx.ExecContext(ctx, tables.InsertTree, tables.EmptyRoot())
			}
			return err
		})
	}
	if err == nil {
		err = l.settle(ctx, `instance = $1`, l.name)
	}
	if err != nil {
		return nil, errors.Join(ledger.Unavailable("open", err), db.Close())
	}
	return l, nil
}

func (l *Ledger) Consume(ctx context.Context, keys ...ledger.Key) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error { return Consume(ctx, tx, keys...) })
}

func (l *Ledger) Begin(ctx context.Context, r ledger.Record, keys ...ledger.Key) error {
	r.State = ledger.StateForwarding
	return l.logged(l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.insert(ctx, tx, r); err != nil {
			return err
		}
		if err := l.open(ctx, tx, r.Open); err != nil {
			return err
		}
		failpoint.Reach("intent")
		return Consume(ctx, tx, keys...)
	}))
}

const forgetUntil = `INSERT INTO forgotten (one, expires) VALUES (1, $1)
ON CONFLICT (one) DO UPDATE SET expires = greatest(forgotten.expires, excluded.expires)`

func (l *Ledger) Accept(ctx context.Context, a ledger.Acceptance, until time.Time) error {
	text, err := tables.EncodeAcceptance(a)
	if err != nil {
		return err
	}
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, tables.InsertAcceptance, text)
		if err == nil {
			_, err = tx.ExecContext(ctx, forgetUntil, until.Unix())
		}
		if err != nil {
			return ledger.Unavailable("write the acceptance", err)
		}
		return nil
	})
}

func (l *Ledger) Finish(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, []ledger.Record{r}, nil)
}

func (l *Ledger) Add(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, nil, []ledger.Record{r})
}

// Write implements [ledger.Store] in a constant number of round trips.
func (l *Ledger) Write(ctx context.Context, outcomes, records []ledger.Record, receipts ...ledger.Receipt) error {
	for _, r := range records {
		if !r.State.Whole() {
			return ledger.ErrState
		}
	}
	err := l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.update(ctx, tx, outcomes...); err != nil {
			return err
		}
		if err := l.insert(ctx, tx, records...); err != nil {
			return err
		}
		return addReceipts(ctx, tx, receipts)
	})
	if err == nil {
		l.ended(receipts)
	}
	return l.logged(err)
}

const (
	// insertPosts inserts in the order of the arrays: of records with the same start, the last is the newest.
	insertPosts = `
WITH added AS (SELECT *
	FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
		$9::bigint[], $10::text[])
	WITH ORDINALITY AS r (id, flow, state, session, started, record, artifacts, keys, kids, n)),
     sets AS (INSERT INTO key_sets (id, kids)
	SELECT DISTINCT keys, kids FROM added WHERE keys > 0 ORDER BY keys ON CONFLICT DO NOTHING),
     logged AS (INSERT INTO leaves (id, entry, opening, made)
	SELECT * FROM unnest($11::text[], $12::text[], $13::text[], $14::bigint[])),
     stored AS (INSERT INTO posts (id, instance, flow, state, session, started, record, artifacts, keys)
	SELECT id, $1, flow, state, session, started, record, nullif(artifacts, ''), keys FROM added ORDER BY n
	RETURNING seq, state)
INSERT INTO unexported (seq, instance) SELECT seq, $1 FROM stored WHERE $15 AND state <> 'forwarding'`
	// updatePosts finds posts by id. A plain state = 'forwarding' would read all of posts_forwarding, which keeps an
	// entry for each post that has ended since the last vacuum.
	updatePosts = `
WITH done AS (UPDATE posts SET state = r.state, record = r.record
	FROM unnest($1::text[], $2::text[], $3::text[]) AS r (id, state, record)
	WHERE posts.id = r.id AND posts.state || '' = 'forwarding' RETURNING posts.id, posts.seq),
     logged AS (INSERT INTO leaves (id, entry, opening, made) SELECT l.id, entry, opening, made
	FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[]) AS l (post, id, entry, opening, made)
	JOIN done ON done.id = l.post),
     ended AS (INSERT INTO unexported (seq, instance) SELECT seq, $9 FROM done WHERE $10)
SELECT count(*) FROM done`
)

func (l *Ledger) insert(ctx context.Context, tx *sql.Tx, records ...ledger.Record) error {
	if len(records) == 0 {
		return nil
	}
	var ids, flows, states, sessions, texts, artifacts, kids []string
	var started, keys []int64
	var log leaves
	for _, r := range records {
		if err := l.logIntent(&log, r); err != nil {
			return err
		}
		text, attached, err := tables.Encode(r)
		if err != nil {
			return err
		}
		ids, flows, states = append(ids, r.ID), append(flows, r.Flow), append(states, string(r.State))
		sessions, started = append(sessions, r.Session), append(started, r.Started.UnixMilli())
		texts, artifacts = append(texts, text), append(artifacts, attached)
		set := tables.KeySetOf(r.Artifacts)
		if !tables.Storable(set.Kids) {
			set = tables.KeySet{}
		}
		keys, kids = append(keys, set.ID), append(kids, set.Kids)
	}
	_, err := tx.ExecContext(ctx, insertPosts, l.name, ids, flows, states, sessions, started, texts, artifacts, keys,
		kids, log.ids, log.entries, log.openings, log.made, l.o.Ended != nil)
	if err != nil {
		return ledger.Unavailable("write the record", err)
	}
	return nil
}

func (l *Ledger) update(ctx context.Context, tx *sql.Tx, outcomes ...ledger.Record) error {
	if len(outcomes) == 0 {
		return nil
	}
	var ids, states, texts []string
	var log leaves
	for _, r := range outcomes {
		text, err := tables.Outcome(r)
		if err == nil {
			err = l.logOutcome(ctx, tx, &log, r, text)
		}
		if err != nil {
			return err
		}
		ids, states, texts = append(ids, r.ID), append(states, string(r.State)), append(texts, text)
	}
	// QueryExecModeExec plans each time: a plan from when the table was small would read all of it.
	var n int
	err := tx.QueryRowContext(ctx, updatePosts, pgx.QueryExecModeExec, ids, states, texts, log.posts, log.ids,
		log.entries, log.openings, log.made, l.name, l.o.Ended != nil).Scan(&n)
	if err != nil {
		return ledger.Unavailable("write the record", err)
	}
	if n != len(outcomes) {
		return ledger.ErrState
	}
	return nil
}

func (l *Ledger) settle(ctx context.Context, where string, arg any) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		inFlight, err := tables.Posts(tx.QueryContext(ctx,
			dialect.Posts()+`WHERE state = 'forwarding' AND `+where, arg))
		if err != nil {
			return err
		}
		for _, r := range inFlight {
			err := l.update(ctx, tx, tables.Lost(r, l.o.Now()))
			if err != nil && !errors.Is(err, ledger.ErrState) { // it has ended meanwhile
				return fmt.Errorf("post %s: %w", r.ID, err)
			}
		}
		return nil
	})
}
