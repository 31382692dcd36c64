package ledger

import (
	"context"
	"errors"
	"iter"
	"time"
)

// A consumed key is kept for KeyMargin after its artifact has expired, which is more than any clock error.
const KeyMargin = 24 * time.Hour

// Records are kept for DefaultRetention unless the configuration says otherwise: long enough to look into a quarter.
const DefaultRetention = 90 * 24 * time.Hour

// Key is one single-use key, such as the jti of an artifact.
type Key struct {
	Kind string
	ID   string
	// Expires is when the artifact behind the key expires. The key is kept for longer: see [KeyMargin].
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
	// Begin consumes keys as Consume does, records the intent to forward r, and opens the call r.Open if it is set, in
	// one transaction. The first byte may go out only after Begin has returned nil.
	Begin(ctx context.Context, r Record, keys ...Key) error
	// Finish records the outcome of a post that has begun: forwarded, failed or indeterminate. It replaces the record
	// except for its artifacts. It succeeds once: without a beginning, or with an outcome already, it returns [ErrState].
	Finish(ctx context.Context, r Record) error
	// Add keeps the record of a refusal, or of a call that needs no evidence. For any other state it returns [ErrState].
	Add(ctx context.Context, r Record) error
	// Write does Finish for outcomes, Add for records and AddReceipts for receipts, in one transaction.
	Write(ctx context.Context, outcomes, records []Record, receipts ...Receipt) error
	// Get returns the record with this id, or the only one whose id begins with it. Otherwise it returns [ErrNotFound]
	// or a [SeveralError].
	Get(ctx context.Context, id string) (Record, error)
	// Records yields the records that q selects, and reads them as the caller goes on. An error comes last; without one
	// the list is whole. It holds nothing open while its caller works, so posts go on, and a post stored meanwhile may be
	// in the list or not. An unknown cursor is [ErrNotFound].
	Records(ctx context.Context, q Query) iter.Seq2[Record, error]
	// KeyUses returns the signing keys that posts with an outcome and receipts rest on.
	KeyUses(ctx context.Context) (KeyUses, error)
	// Prune removes consumed keys whose artifacts expired over a day ago, records older than the retention, and chains
	// whose last receipt is older, handed over or not. It never removes a post in flight. ctx may end it at any point.
	//
	// A removed key is not free again. Should a clock that was wrong make its artifact live once more, Consume refuses
	// every key that expires no later than a removed one.
	Prune(ctx context.Context, now time.Time) error
	// Close makes accepted writes durable and closes the ledger. Further writes get [ErrClosed].
	Close() error
}

// Query selects records; empty fields select all. Records come in the order of their start, then of their storing.
type Query struct {
	Since, Until time.Time // started at Since or later, and before Until, to the millisecond
	State        State
	Session      string
	Flow         string
	Key          string // only records with an artifact signed by this key: a kid, or a name for all its versions
	Keys         bool   // only records with evidence, and of each its keys and its columns alone
	Cursor       string // only the records after the one with this id
	OldestFirst  bool   // otherwise the newest come first
	Limit        int    // zero is no limit
}

// KeyUse is what a ledger has counted of one version of a signing key.
type KeyUse struct {
	KeyID string    `json:"keyId"`
	First time.Time `json:"first"` // the start of a post, or the signing of an interaction receipt
	Last  time.Time `json:"last"`
	Posts int64     `json:"posts"` // posts that went out or may have, with an artifact signed by this version
}

// KeyUses are the uses of all versions, pruned records included. A post counts with its outcome.
type KeyUses struct {
	Since time.Time `json:"since"` // the beginning of the count
	Keys  []KeyUse  `json:"keys"`
}
