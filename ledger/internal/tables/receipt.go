package tables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

const (
	selectOpen = `SELECT id, session, started, draft FROM open_calls WHERE instance = $1 ORDER BY started, id`
	lastNumber = `(SELECT number FROM receipts AS r WHERE r.session = d.session ORDER BY number DESC LIMIT 1)`
	due        = `FROM deliveries AS d WHERE due <= $1
		AND number < ` + lastNumber + ` ORDER BY due LIMIT $2`
	selectDue = `SELECT session, number, due, refused ` + due
	// claimDue skips rows that another process is claiming.
	claimDue = `UPDATE deliveries AS claimed SET due = $3 FROM (SELECT session ` + due + ` FOR UPDATE SKIP LOCKED) AS due
		WHERE claimed.session = due.session RETURNING claimed.session, claimed.number, claimed.due, claimed.refused`
	settleDelivery = `UPDATE deliveries SET number = $2, due = $3, refused = $4 WHERE session = $1`
	endDelivery    = `DELETE FROM deliveries WHERE session = $1`
)

// In a shared database calls are opened a few at once, and fewer of one session: no event bounds their number, as it
// does that of posts, and a slow database would otherwise have no connection left for those.
const maxOpening, maxOpeningEach = 12, 4

func (l *Ledger) OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error {
	if l.db.Shared() && len(calls) > 0 {
		done, err := l.opening.Wait(ctx, calls[0].Session)
		if err != nil {
			return ledger.Unavailable("open a call", err)
		}
		defer done()
	}
	var b batch
	if err := l.open(&b, calls); err != nil {
		return err
	}
	return l.run(ctx, "open a call", b...)
}

func (l *Ledger) open(b *batch, calls []ledger.OpenCall) error {
	for _, c := range calls {
		if err := c.Check(); err != nil {
			return err
		}
		if c.ID == c.Session && l.o.Chains != "" {
			if err := files.Replace(l.chain(c.Session), nil, 0o600); err != nil {
				return ledger.Unavailable("open a call", err)
			}
		}
		b.add(insertOpenCall, c.ID, l.name, c.Session, c.Started.UnixMilli(), db.Seal(l.o.Instance, about(c), c.Draft))
	}
	return nil
}

// chain returns the file that says that a session's chain has not ended.
func (l *Ledger) chain(session string) string { return filepath.Join(l.o.Chains, session) }

func (l *Ledger) endChains(receipts []ledger.Receipt) {
	for _, r := range receipts {
		if r.Call == r.Session && l.o.Chains != "" {
			_ = os.Remove(l.chain(r.Session)) // if it stays, the last receipt still shows the end
		}
	}
}

func (b *batch) receipt(r ledger.Receipt) error {
	if err := r.Check(); err != nil {
		return err
	}
	b.must(&ledger.ForkedError{Session: r.Session}, insertReceipt, r.Session, r.Number, r.Call, r.Signed.UnixMilli(),
		r.Token)
	b.add(deleteOpenCall, r.Call)
	if r.Number == 1 {
		b.add(insertDelivery, r.Session)
	}
	return nil
}

// LeftOpen implements [ledger.Receipts]. It leaves out what other users of the database wrote, altered, or put back
// after the end of the chain.
func (l *Ledger) LeftOpen(ctx context.Context) (own []ledger.OpenCall, err error) {
	err = each(ctx, l.Reader, selectOpen, []any{l.name}, func(c ledger.OpenCall) error {
		draft, sealed := db.Unseal(l.o.Instance, about(c), c.Draft)
		if !sealed {
			return nil
		}
		if _, gone := os.Stat(l.chain(c.Session)); l.o.Chains == "" || gone == nil {
			c.Draft = draft
			own = append(own, c)
		}
		return nil
	})
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

// about is what the seal of a call's draft names.
func about(c ledger.OpenCall) string { return fmt.Sprintf("%q %q ", c.ID, c.Session) }

// maxChainBytes is twice as much as [ledger.MaxChain] receipts can have.
const maxChainBytes = 64 << 20

const selectReceipts = `SELECT session, number, call, signed, token FROM receipts WHERE session = $1 `

func (r Reader) Chain(ctx context.Context, session string, from int64, limit int) (all []ledger.Receipt, err error) {
	size := 0
	err = each(ctx, r, selectReceipts+`AND number >= $2 ORDER BY number LIMIT $3`,
		[]any{session, from, min(limit, ledger.MaxChain)}, func(c ledger.Receipt) error {
			if size += len(c.Token); size > maxChainBytes { // see pageBytes
				return ledger.Unavailable("read", errors.New("the receipts are longer than any that were signed"))
			}
			all = append(all, c)
			return nil
		})
	if errors.Is(err, ledger.ErrNotFound) { // no session has such a name
		err = nil
	}
	return all, err
}

func (r Reader) LastReceipt(ctx context.Context, session string) (ledger.Receipt, error) {
	return one[ledger.Receipt](ctx, r, selectReceipts+`ORDER BY number DESC LIMIT 1`, session)
}

// ClaimDeliveries implements [ledger.Deliveries]. A file belongs to one process, and so stores no claims.
func (l *Ledger) ClaimDeliveries(ctx context.Context, now, until time.Time, limit int) (claimed []ledger.Delivery,
	err error) {
	if !l.db.Shared() {
		return many[ledger.Delivery](ctx, l.Reader, selectDue, now, limit)
	}
	err = l.db.Write(ctx, "claim deliveries", func(t db.Tx) (err error) {
		claimed, err = db.ManyIn[ledger.Delivery](t, claimDue, now, limit, until)
		return err
	})
	return claimed, err
}

func (l *Ledger) SettleDeliveries(ctx context.Context, all ...ledger.Delivery) error {
	var b batch
	for _, d := range all {
		if d.Whole {
			b.add(endDelivery, d.Session)
		} else {
			b.add(settleDelivery, d.Session, d.Number, d.Due, d.Refused)
		}
	}
	return l.run(ctx, "settle deliveries", b...)
}

const selectBacklog = `SELECT CAST(coalesce(sum(` + lastNumber + ` - number), 0) AS bigint),
	coalesce(min((SELECT signed FROM receipts AS r
		WHERE r.session = d.session AND r.number > d.number ORDER BY r.number LIMIT 1)), 0),
	count(nullif(refused, '')), coalesce(max(refused), '') FROM deliveries AS d`

func (l *Ledger) Backlog(ctx context.Context) (ledger.Backlog, error) {
	b, err := one[ledger.Backlog](ctx, l.Reader, selectBacklog)
	b.Pruned = l.pruned.Load()
	return b, err
}
