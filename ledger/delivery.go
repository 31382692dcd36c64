package ledger

import (
	"context"
	"time"
)

// Delivery is how far the receipts of one session have been handed over to whoever appraises them.
type Delivery struct {
	Session string
	Number  int64     // of the last receipt that was acknowledged; 0 while none was
	Due     time.Time // when it goes on: until then it belongs to whoever has claimed it
	Refused string    // why no more receipts of the session are taken; empty while they are
	Whole   bool      // the end of the chain is acknowledged: the ledger forgets the delivery
}

// Backlog is what has not been handed over.
type Backlog struct {
	Receipts int64     // of all sessions
	Oldest   time.Time // when the oldest of them was signed; zero if there is none
	Refused  int64     // sessions whose receipts are not taken
	Reason   string    // why, of one of them
	Pruned   int64     // receipts that this process has removed for their age before they were handed over
}

// Deliveries keeps how far receipts have been handed over: for each session from its first receipt on, until the end of
// its chain is acknowledged. Its methods are safe for concurrent use.
type Deliveries interface {
	// ClaimDeliveries returns sessions that are due and have receipts which are not acknowledged, the longest due first,
	// at most limit. Of the processes that share a ledger no other gets them before until.
	ClaimDeliveries(ctx context.Context, now, until time.Time, limit int) ([]Delivery, error)
	// SettleDeliveries keeps how far deliveries have come, and ends their claim. What is not known any more is left out.
	SettleDeliveries(ctx context.Context, all ...Delivery) error
	// Backlog looks at all deliveries: it takes a time that grows with their number.
	Backlog(ctx context.Context) (Backlog, error)
}
