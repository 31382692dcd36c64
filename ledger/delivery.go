package ledger

import (
	"context"
	"time"
)

// Delivery is the progress of handing over the receipts of one session to the node.
type Delivery struct {
	Session string
	Number  int64     // of the last receipt that was acknowledged; 0 while none was
	Due     time.Time // when it goes on; until then it belongs to its claimant
	Refused string    // why no more receipts of the session are taken; empty while they are
	Whole   bool      // the end of the chain is acknowledged: the ledger forgets the delivery
}

// Backlog counts the receipts that are not handed over.
type Backlog struct {
	Receipts int64     // of all sessions
	Oldest   time.Time // when the oldest of them was signed; zero if there is none
	Refused  int64     // sessions whose receipts are not taken
	Reason   string    // why, of one of them
	Pruned   int64     // receipts that this process has removed for their age before they were handed over
}

// Deliveries keeps the progress of each session from its first receipt until the end of its chain is acknowledged. Its
// methods are safe for concurrent use.
type Deliveries interface {
	// ClaimDeliveries returns at most limit due sessions with receipts that are not acknowledged, the longest due first.
	// No other process that shares the ledger gets them before until.
	ClaimDeliveries(ctx context.Context, now, until time.Time, limit int) ([]Delivery, error)
	// SettleDeliveries keeps the progress of deliveries, and ends their claim. It skips unknown ones.
	SettleDeliveries(ctx context.Context, all ...Delivery) error
	// Backlog looks at all deliveries: its time grows with their number.
	Backlog(ctx context.Context) (Backlog, error)
}
