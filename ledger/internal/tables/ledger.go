package tables

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/ledger"
)

// Ledger is the [ledger.Store] in a database, with its transparency log and its list of records to export.
type Ledger struct {
	Reader
	o       ledger.Options
	name    string // of this process in the database; empty in a file
	consume Consume
	opening *share.Turns // of sessions; see maxOpening
	pruned  atomic.Int64 // receipts removed undelivered
}

var (
	_ ledger.Identified = (*Ledger)(nil)
	_ ledger.Log        = (*Ledger)(nil)
	_ ledger.Exports    = (*Ledger)(nil)
)

// Consume consumes keys in a transaction, all or none.
type Consume func(t db.Tx, keys []ledger.Key) error

// Open starts the ledger in d, which has the [Schema], and closes d if it fails. Posts that this instance left in
// flight become indeterminate, because they may have been sent.
func Open(ctx context.Context, d *db.DB, o ledger.Options, consume Consume) (*Ledger, error) {
	l := &Ledger{Reader: Reader{d}, o: o, consume: consume, opening: share.NewTurns(maxOpening, maxOpeningEach)}
	if o.Instance != "" {
		name := sha256.Sum256([]byte(o.Instance))
		l.name = hex.EncodeToString(name[:])
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return l, nil
}

func (l *Ledger) start(ctx context.Context) error {
	if l.o.Chains != "" {
		if err := os.MkdirAll(l.o.Chains, 0o700); err != nil {
			return ledger.Unavailable("open", err)
		}
	}
	err := l.run(ctx, "write its identity", db.Statement{Query: insertIdentity, Args: []any{rand.Text()}},
		db.Statement{Query: insertTree, Args: []any{emptyRoot()}})
	if err != nil {
		return err
	}
	return l.settle(ctx, `instance = $1`, l.name)
}

// run runs statements in one transaction.
func (l *Ledger) run(ctx context.Context, doing string, all ...db.Statement) error {
	return l.db.Write(ctx, doing, func(t db.Tx) error { return t.Run(all...) })
}

// settle ends posts in flight. The condition on the state repeats the index's: a start must not read
// every record.
func (l *Ledger) settle(ctx context.Context, where string, arg any) error {
	lost, err := l.posts(ctx, `WHERE state = 'forwarding' AND state <> 'forwarded' AND `+where, arg)
	if err != nil || len(lost) == 0 {
		return err
	}
	return l.lose(ctx, lost)
}

// lose ends posts together, or one by one if another process has ended one of them meanwhile.
func (l *Ledger) lose(ctx context.Context, lost []ledger.Record) error {
	var b batch
	for _, r := range lost {
		if err := l.outcome(&b, Lost(r, l.o.Now())); err != nil {
			return err
		}
	}
	switch err := l.run(ctx, "write the record", b...); {
	case !errors.Is(err, ledger.ErrState):
		return err
	case len(lost) == 1:
		return nil
	}
	for i := range lost {
		if err := l.lose(ctx, lost[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// signal says that leaves, or ends of calls, may have been stored.
func (l *Ledger) signal(err error) error {
	if err == nil && l.o.Logged != nil {
		l.o.Logged()
	}
	if err == nil && l.o.Ended != nil {
		l.o.Ended()
	}
	return err
}

func (l *Ledger) Consume(ctx context.Context, keys ...ledger.Key) error {
	return l.db.Write(ctx, "consume", func(t db.Tx) error { return l.consume(t, keys) })
}

// ConsumeInFile is the [Consume] of SQLite, which has one writer.
func ConsumeInFile(t db.Tx, keys []ledger.Key) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		n, err := t.Exec(insertKey, timeFirst(k.ID), k.Kind, k.Expires.Unix())
		if err == nil && n == 0 {
			err = refused(t, k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused returns why a key cannot be consumed.
func refused(t db.Tx, k ledger.Key) error {
	forgotten, err := db.ManyIn[int64](t, `SELECT expires FROM forgotten WHERE expires >= $1`, k.Expires.Unix())
	switch {
	case err != nil:
		return err
	case len(forgotten) > 0:
		return ledger.Forgotten(k)
	}
	return &ledger.ConsumedError{Key: k}
}

// timeFirst returns the id as stored. An artifact's id is its issuer, a space, and a jti that begins with the time.
// timeFirst moves the issuer to the end, so that the keys of one post lie in one page of the index instead of nine.
// Different ids stay different.
func timeFirst(id string) string {
	if issuer, jti, ok := strings.Cut(id, " "); ok {
		return jti + " " + issuer
	}
	return id
}

func (l *Ledger) Begin(ctx context.Context, r ledger.Record, keys ...ledger.Key) error {
	r.State = ledger.StateForwarding
	var b batch
	err := l.record(&b, r)
	if err == nil {
		err = l.logIntent(&b, r)
	}
	if err == nil {
		err = l.open(&b, r.Open)
	}
	if err != nil {
		return err
	}
	return l.signal(l.db.Write(ctx, "write the record", func(t db.Tx) error {
		if err := t.Run(b...); err != nil {
			return err
		}
		failpoint.Reach("intent")
		return l.consume(t, keys)
	}))
}

func (l *Ledger) Finish(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, []ledger.Record{r}, nil)
}

func (l *Ledger) Add(ctx context.Context, r ledger.Record) error {
	return l.Write(ctx, nil, []ledger.Record{r})
}

func (l *Ledger) AddReceipts(ctx context.Context, receipts ...ledger.Receipt) error {
	return l.Write(ctx, nil, nil, receipts...)
}

func (l *Ledger) Write(ctx context.Context, outcomes, records []ledger.Record, receipts ...ledger.Receipt) error {
	var b batch
	for _, r := range outcomes {
		if err := l.outcome(&b, r); err != nil {
			return err
		}
	}
	for _, r := range records {
		if !r.State.Whole() {
			return ledger.ErrState
		}
		if err := l.record(&b, r); err != nil {
			return err
		}
	}
	for _, r := range receipts {
		if err := b.receipt(r); err != nil {
			return err
		}
	}
	b.order()
	err := l.run(ctx, "write the record", b...)
	if err == nil {
		l.endChains(receipts)
	}
	return l.signal(err)
}

// batch are statements to run together.
type batch []db.Statement

func (b *batch) add(query string, args ...any) { b.must(nil, query, args...) }

// must adds a statement that fails with instead unless it changes a row.
func (b *batch) must(instead error, query string, args ...any) {
	*b = append(*b, db.Statement{Query: query, Args: args, None: instead})
}

// order moves the naming of key sets to the end, sorted: two processes that name the same new ones would otherwise wait
// for each other.
func (b batch) order() {
	set := func(s db.Statement) (id int64) {
		if s.Query == nameKeySet {
			id = s.Args[0].(int64)
		}
		return id
	}
	slices.SortStableFunc(b, func(x, y db.Statement) int { return cmp.Compare(set(x), set(y)) })
}

func (l *Ledger) record(b *batch, r ledger.Record) error {
	record, artifacts, err := Encode(r)
	if err != nil {
		return err
	}
	keys := keySetOf(r.Artifacts)
	b.add(insertPost, r.ID, l.name, r.Flow, string(r.State), r.Session, r.Started.UnixMilli(), keys.ID, record)
	if artifacts != "" {
		b.add(insertArtifacts, r.ID, artifacts)
	}
	if keys.ID != 0 {
		named := countKeySet
		if l.db.Shared() {
			named = nameKeySet
		}
		b.add(named, keys.ID, keys.Kids, r.Started.UnixMilli())
	}
	if r.State.Whole() {
		l.unexported(b, r.ID)
	}
	return nil
}

func (l *Ledger) outcome(b *batch, r ledger.Record) error {
	record, err := Outcome(r)
	if err != nil {
		return err
	}
	b.must(ledger.ErrState, updatePost, r.ID, string(r.State), record)
	l.unexported(b, r.ID)
	return l.logOutcome(b, r, record)
}

// unexported lists a call that has ended, if the ledger exports.
func (l *Ledger) unexported(b *batch, id string) {
	if l.o.Ended != nil {
		b.add(insertUnexported, id, l.name)
	}
}

func (l *Ledger) Exported(ctx context.Context, records ...ledger.Export) error {
	var b batch
	for _, r := range records {
		b.add(exported, r.Seq)
	}
	return l.run(ctx, "note the export", b...)
}

// Unexported implements [ledger.Exports]. CROSS JOIN makes SQLite begin with the records that wait.
func (l *Ledger) Unexported(ctx context.Context, limit int) (all []ledger.Export, err error) {
	size := 0
	err = each(ctx, l.Reader, selectUnexported, []any{l.name, limit}, func(e ledger.Export) error {
		if size += len(e.Record) + len(e.Artifacts); size > ledger.MaxExport && len(all) > 0 {
			return errFull
		}
		all = append(all, e)
		return nil
	})
	if err == errFull {
		err = nil
	}
	return all, err
}

const selectUnexported = `SELECT posts.seq, id, record, coalesce(` + artifacts + `, '')
	FROM unexported CROSS JOIN posts WHERE posts.seq = unexported.seq AND unexported.instance = $1
	ORDER BY unexported.seq LIMIT $2`

func (l *Ledger) Accept(ctx context.Context, a ledger.Acceptance, until time.Time) error {
	text, err := json.Marshal(a)
	if err != nil {
		return ledger.Unavailable("write the acceptance", err)
	}
	return l.run(ctx, "write the acceptance", db.Statement{Query: insertAcceptance, Args: []any{string(text)}},
		db.Statement{Query: forgetUntil, Args: []any{until.Unix()}})
}
