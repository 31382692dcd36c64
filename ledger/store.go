package ledger

import (
	"context"
	"errors"
	"iter"
	"time"
)

// KeyMargin is how long a consumed key is kept after its artifact has expired: longer than any clock is wrong by.
const KeyMargin = 24 * time.Hour

// DefaultRetention is how long records are kept where nothing else is configured: long enough to look into a quarter,
// and an end for what strangers leave.
const DefaultRetention = 90 * 24 * time.Hour

// Key is one single-use key, such as the jti of an artifact.
type Key struct {
	Kind string
	ID   string
	// Expires is when the artifact behind the key expires. The key is kept for longer than that.
	Expires time.Time
}

// Check refuses a key without a kind, an id or an expiry.
func (k Key) Check() error {
	if k.Kind == "" || k.ID == "" || k.Expires.IsZero() {
		return Unavailable("consume", errors.New("a key lacks its kind, id or expiry"))
	}
	return nil
}

// Store is what every ledger does. It is safe for concurrent use.
type Store interface {
	Receipts
	Deliveries
	// Consume records keys as used, all or none. For each key exactly one caller ever gets nil, and only once that
	// survives a crash. Every other caller gets a [*ConsumedError]. After any other error count the keys as consumed.
	Consume(ctx context.Context, keys ...Key) error
	// Begin consumes keys as Consume does and records the intent to forward r, and with it that r.Open is open, if it is
	// set, in one transaction. The first byte may go out only after Begin has returned nil.
	Begin(ctx context.Context, r Record, keys ...Key) error
	// Finish records the outcome of a post that has begun: forwarded, failed or indeterminate. It replaces the whole
	// record except for its artifacts, which stay as Begin got them. It succeeds once. For a post that has not begun,
	// or that has an outcome, it returns [ErrState].
	Finish(ctx context.Context, r Record) error
	// Add keeps the record of a call that is over: of a refusal, or of a call that needs no evidence. For any other
	// state it returns [ErrState].
	Add(ctx context.Context, r Record) error
	// Write does Finish for outcomes, Add for records and AddReceipts for receipts, all in one transaction or none.
	Write(ctx context.Context, outcomes, records []Record, receipts ...Receipt) error
	// Get returns the record with this id, or the only one whose id begins with it: else [ErrNotFound], or [SeveralError].
	Get(ctx context.Context, id string) (Record, error)
	// Records yields the records that q selects, in the order that q names, and reads them as they are asked for. An error
	// is the last thing that it yields; without one the list is whole. It holds nothing open while its caller works, so
	// posts go on meanwhile; one that is stored then may be in the list or not. A cursor that is not kept is
	// [ErrNotFound].
	Records(ctx context.Context, q Query) iter.Seq2[Record, error]
	// KeyUses returns which signing keys the posts that have an outcome, and the receipts, rest on.
	KeyUses(ctx context.Context) (KeyUses, error)
	// Prune removes consumed keys whose artifacts expired over a day ago, and records older than the retention, with the
	// chains of receipts whose last one is older, handed over or not. It never removes a post in flight. The caller
	// decides when; ctx may end it at any point.
	//
	// A key that has been removed is not free again. If the clock was wrong, and an artifact is live once more, Consume
	// refuses every key that expires no later than one that was removed.
	Prune(ctx context.Context, now time.Time) error
	// Close makes what has been accepted durable and closes the ledger. Every further write gets [ErrClosed].
	Close() error
}

// Query selects records; empty fields select all. Records come in the order of their start, and where two started
// together, in the order in which they were stored.
type Query struct {
	Since, Until time.Time // started at Since or later, and before Until, to the millisecond
	State        State
	Session      string
	Flow         string
	Key          string // only records with an artifact that this key has signed: a kid, or a name for all its versions
	// only records with evidence, each with its keys and nothing but what an index or a column of the store has
	Keys        bool
	Cursor      string // the id of a record: only those that follow it in the order
	OldestFirst bool   // otherwise the newest come first
	Limit       int    // how many at most; zero is no limit
}

// KeyUse is what a ledger has counted of one version of a signing key.
type KeyUse struct {
	KeyID string    `json:"keyId"`
	First time.Time `json:"first"` // of a post that began, its start; of an interaction receipt, when it was signed
	Last  time.Time `json:"last"`
	Posts int64     `json:"posts"` // that went out, or may have, and have an artifact that the version has signed
}

// KeyUses are the uses of all versions that a ledger has counted, also of those whose records it has pruned. A post
// counts with its outcome.
type KeyUses struct {
	Since time.Time `json:"since"` // nothing before was counted: the ledger, or its count, is as old as that
	Keys  []KeyUse  `json:"keys"`
}
