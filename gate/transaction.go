package gate

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net/http"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// Transaction is an API's transaction that makes a post and consumes its keys.
type Transaction interface {
	// Consume marks keys as used, all or none. It returns a [*ledger.ConsumedError] for a used key. Other transactions
	// with the same key wait until this one ends.
	Consume(ctx context.Context, keys ...ledger.Key) error
	Commit() error
	Rollback() error
}

type transactionKey struct{}

// TransactionFrom returns the transaction of a protected handler, or nil without [Protect.InTransaction].
func TransactionFrom(ctx context.Context) Transaction {
	t, _ := ctx.Value(transactionKey{}).(Transaction)
	return t
}

// inTransaction lets next make the post in the transaction that consumes its keys, and holds the answer until that
// ends.
func (p *Protect) inTransaction(w http.ResponseWriter, r *http.Request, next http.Handler, keys []ledger.Key,
	to *answering) {
	tx, err := p.InTransaction(r.Context())
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	defer tx.Rollback() //nolint:errcheck // also if the handler panics; does nothing after Commit
	if err := tx.Consume(r.Context(), keys...); err != nil {
		p.refuse(w, r, err)
		return
	}
	held := &heldAnswer{header: make(http.Header)}
	next.ServeHTTP(held, r.WithContext(context.WithValue(r.Context(), transactionKey{}, tx)))
	switch {
	case held.tooLarge:
		err = errors.New("gate: the protected handler's answer is too large to be held back")
	case held.status() < http.StatusBadRequest:
		if cause := tx.Commit(); cause != nil {
			unknown := refusal.New("indeterminate",
				"the commit of the post's transaction failed; the post may have been made all the same")
			err = errors.Join(unknown, cause) // for Refused, not for the caller
		}
	default:
		_ = tx.Rollback() // roll back: nothing was made
	}
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	p.finish(held, w, r, to)
}

// bytes of an answer that is held back
const maxHeld = 4 << 20

type heldAnswer struct {
	header   http.Header
	code     int // zero until it is known
	body     bytes.Buffer
	tooLarge bool
}

func (h *heldAnswer) Header() http.Header { return h.header }

func (h *heldAnswer) WriteHeader(status int) {
	if h.code == 0 && status >= http.StatusOK {
		h.code = status
	}
}

func (h *heldAnswer) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	if h.body.Len()+len(p) > maxHeld {
		h.tooLarge = true
		return 0, errors.New("gate: the answer is too large to be held back until the transaction has ended")
	}
	return h.body.Write(p)
}

func (h *heldAnswer) status() int {
	if h.code == 0 {
		return http.StatusOK
	}
	return h.code
}

func (h *heldAnswer) write(w http.ResponseWriter) {
	for name, values := range h.header {
		w.Header()[name] = values
	}
	w.WriteHeader(h.status())
	_, _ = w.Write(h.body.Bytes())
}

// Queries is what a protected handler may call on a *sql.Tx. Only the middleware ends the transaction.
type Queries interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL returns a [Protect.InTransaction] for a database. consume is postgres.Consume or the like. The handler gets the
// transaction from [Tx].
func SQL(
	db *sql.DB, consume func(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error,
) func(context.Context) (Transaction, error) {
	return func(ctx context.Context) (Transaction, error) {
		tx, err := db.BeginTx(ctx, nil)
		return sqlTransaction{tx, consume}, err
	}
}

type sqlTransaction struct {
	*sql.Tx
	consume func(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error
}

func (t sqlTransaction) Consume(ctx context.Context, keys ...ledger.Key) error {
	return t.consume(ctx, t.Tx, keys...)
}

// Tx returns [SQL]'s transaction in a handler behind the middleware, otherwise nil.
func Tx(ctx context.Context) Queries {
	t, ok := TransactionFrom(ctx).(sqlTransaction)
	if !ok {
		return nil
	}
	return t.Tx
}
