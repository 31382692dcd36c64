package ledger

import (
	"context"
	"errors"
	"iter"
	"time"
)

// KeyMargin keeps a consumed key after its artifact has expired, for longer than any clock error.
const KeyMargin = 24 * time.Hour

// DefaultRetention keeps records long enough to investigate a quarter.
const DefaultRetention = 90 * 24 * time.Hour

// Key is one single-use key, such as the jti of an artifact.
type Key struct {
	Kind string
	ID   string
	// Expires is when the key's artifact expires. The key is kept longer: see [KeyMargin].
	Expires time.Time
}

// Check refuses a key without kind, id or expiry.
func (k Key) Check() error {
	if k.Kind == "" || k.ID == "" || k.Expires.IsZero() {
		return Unavailable("consume", errors.New("a key lacks its kind, id or expiry"))
	}
	return nil
}

// Store is what every ledger can do. It is safe for concurrent use.
type Store interface {
	Receipts
	Deliveries
	// Consume marks keys as used, all or none. For each key exactly one caller ever gets nil, and only once that
	// survives a crash. Every other caller gets a [*ConsumedError]. After any other error, treat the keys as consumed.
	Consume(ctx context.Context, keys ...Key) error
	// In one transaction Begin consumes keys as Consume does, records the intent to forward r, and opens the calls in
	// r.Open. The first byte may go out only after Begin has returned nil.
	Begin(ctx context.Context, r Record, keys ...Key) error
	// Finish records the outcome of a post that has begun: forwarded, failed or indeterminate. It replaces the record
	// except for its artifacts. It returns [ErrState] without a beginning, or if there is an outcome already.
	Finish(ctx context.Context, r Record) error
	// Add stores the record of a refusal, or of a call that needs no evidence. It returns [ErrState] for other states.
	Add(ctx context.Context, r Record) error
	// Write finishes outcomes, adds records and adds receipts, in one transaction.
	Write(ctx context.Context, outcomes, records []Record, receipts ...Receipt) error
	// Get returns the record with this id, or the only one whose id begins with it; otherwise [ErrNotFound] or a
	// [SeveralError].
	Get(ctx context.Context, id string) (Record, error)
	// Records yields the records that q selects as it reads them. An error comes last; without one the list is
	// complete. It holds nothing open while its caller works, so posts continue; the list may lack a post stored
	// meanwhile. An unknown cursor is [ErrNotFound].
	Records(ctx context.Context, q Query) iter.Seq2[Record, error]
	// KeyUses counts the records with evidence by the keys that signed it, in the order of the keys' names.
	KeyUses(ctx context.Context) ([]KeyUse, error)
	// Prune removes keys whose artifacts expired over a day ago, records older than the retention, and chains whose
	// last receipt is older, even if undelivered. It never removes a post in flight. ctx may end it at any point.
	//
	// A removed key is not free again: Consume refuses every key that expires no later than a removed one, in case a
	// wrong clock makes its artifact valid once more.
	Prune(ctx context.Context, now time.Time) error
	// Close makes accepted writes durable and closes the ledger. Later writes get [ErrClosed].
	Close() error
}

// Query selects records; empty fields select all. Records are ordered by start, then by storage.
type Query struct {
	Since, Until time.Time // from Since to before Until, by start, to the millisecond
	State        State
	Session      string
	Flow         string
	Key          string // only records with an artifact signed by this key: a kid, or a name for all its versions
	Keys         bool   // only records with evidence, and only their keys and columns
	Bare         bool   // without artifacts, which are most of a record
	Cursor       string // only records after the one with this id
	OldestFirst  bool   // otherwise newest first
	Limit        int    // zero means no limit
}

// KeyUse counts the records with a signature of one version of a signing key.
type KeyUse struct {
	KeyID string    `json:"keyId"`
	First time.Time `json:"first"` // the start of the first post
	Last  time.Time `json:"last"`
	Posts int64     `json:"posts"`
}
