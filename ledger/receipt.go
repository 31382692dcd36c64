package ledger

import (
	"context"
	"errors"
	"time"
)

// MaxChain bounds the receipts that Chain returns.
const MaxChain = 1000

// OpenCall is a call that needs a receipt, or a session whose chain needs its last one. It is durable before the call
// is sent, so that a crash leaves no call without a receipt and no chain without its end.
type OpenCall struct {
	ID      string // of the record of the call, or of the session
	Session string
	Started time.Time
	Draft   string // the parts of the receipt known before the call, in the signer's own form
}

// Check refuses an open call that lacks its id, its session or its start.
func (c OpenCall) Check() error {
	if c.ID == "" || c.Session == "" || c.Started.IsZero() {
		return Unavailable("open a call", errors.New("it lacks its id, session or start"))
	}
	return nil
}

// Receipt is one interaction receipt in the chain of its session.
type Receipt struct {
	Session string    `json:"session"`
	Number  int64     `json:"number"` // in the chain: rises by one
	Call    string    `json:"call"`   // id of the call's record, or of the session for its end
	Signed  time.Time `json:"signed"` // to the millisecond
	Token   string    `json:"token"`
}

// Standing is the state of a session's chain when a post was attested.
type Standing struct {
	Number int64    `json:"number"`         // of the last receipt; 0 if there was none
	Head   string   `json:"head,omitempty"` // its hash
	Open   []string `json:"open,omitempty"` // the calls without a receipt
}

// Check refuses a receipt that lacks a part.
func (r Receipt) Check() error {
	if r.Session == "" || r.Call == "" || r.Token == "" || r.Signed.IsZero() {
		return Unavailable("write the receipt", errors.New("it lacks its session, call, time or token"))
	}
	return nil
}

// Receipts keeps chains of interaction receipts and open calls. Its methods are safe for concurrent use.
type Receipts interface {
	// OpenCalls makes open calls durable, in one transaction. A call that is open already stays as it is.
	OpenCalls(ctx context.Context, calls ...OpenCall) error
	// AddReceipts keeps receipts and closes their calls, in one transaction. It can be repeated: a receipt that is kept
	// already stays as it is. A receipt with the number of a kept one and another token is a [*ForkedError].
	AddReceipts(ctx context.Context, receipts ...Receipt) error
	// LeftOpen returns this instance's open calls, the first first.
	LeftOpen(ctx context.Context) ([]OpenCall, error)
	// Chain returns receipts of a session in order, from a number on: at most limit, and at most [MaxChain].
	Chain(ctx context.Context, session string, from int64, limit int) ([]Receipt, error)
	// LastReceipt returns the last receipt of a session, or [ErrNotFound].
	LastReceipt(ctx context.Context, session string) (Receipt, error)
}
