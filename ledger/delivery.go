package ledger

import (
	"context"
	"time"
)

// Delivery is how far one session's receipts were delivered to the node.
type Delivery struct {
	Session string
	Number  int64     // of the last acknowledged receipt, or 0
	Due     time.Time // when to continue; until then only its claimant does
	Refused string    // why the node takes no more of the session's receipts, or empty
	Whole   bool      // the chain's end is acknowledged: the ledger forgets the delivery
}

// Backlog counts receipts that were not delivered.
type Backlog struct {
	Receipts int64     // of all sessions
	Oldest   time.Time // when the oldest was signed, or zero
	Refused  int64     // sessions whose receipts the node refuses
	Reason   string    // why it refuses one of them
	Pruned   int64     // receipts that this process removed undelivered because of their age
}

// Deliveries keeps each session's progress from its first receipt until the end of its chain is acknowledged. It is
// safe for concurrent use.
type Deliveries interface {
	// ClaimDeliveries returns at most limit due sessions with unacknowledged receipts, the longest due first. No other
	// process with this ledger gets them before until.
	ClaimDeliveries(ctx context.Context, now, until time.Time, limit int) ([]Delivery, error)
	// SettleDeliveries stores the deliveries' progress and ends their claims. It skips unknown ones.
	SettleDeliveries(ctx context.Context, all ...Delivery) error
	// Backlog looks at all deliveries, so its time grows with their number.
	Backlog(ctx context.Context) (Backlog, error)
}
