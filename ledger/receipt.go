package ledger

import (
	"context"
	"errors"
	"time"
)

// MaxChain bounds how many receipts one look at a chain returns.
const MaxChain = 1000

// OpenCall is a call of which a receipt is to be made, or a session whose chain is to be closed by one. It is durable
// before the call is sent, so that a crash leaves no call without a receipt, and no chain without its end.
type OpenCall struct {
	ID      string // of the record of the call, or of the session
	Session string
	Started time.Time
	Draft   string // what is known before the call is sent, as whoever signs the receipt keeps it
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
	Call    string    `json:"call"`   // id of the record of the call; of the end of a session the session's id
	Signed  time.Time `json:"signed"` // to the millisecond
	Token   string    `json:"token"`
}

// Standing is where the chain of a session's receipts stood when a post was attested.
type Standing struct {
	Number int64    `json:"number"`         // of the last receipt; 0 if there was none
	Head   string   `json:"head,omitempty"` // its hash
	Open   []string `json:"open,omitempty"` // the calls that had no receipt then
}

// Check refuses a receipt that lacks a part.
func (r Receipt) Check() error {
	if r.Session == "" || r.Call == "" || r.Token == "" || r.Signed.IsZero() {
		return Unavailable("write the receipt", errors.New("it lacks its session, call, time or token"))
	}
	return nil
}

// Receipts keeps the chains of interaction receipts, and which calls are open. Its methods are safe for concurrent use.
type Receipts interface {
	// OpenCalls keeps that calls are open, durably, in one transaction. What is open already is left as it is.
	OpenCalls(ctx context.Context, calls ...OpenCall) error
	// AddReceipts keeps receipts, and closes their calls, all in one transaction or none. A receipt that is kept already
	// is left as it is, so a write whose outcome is unknown can be tried again. One that has another token than the kept
	// one of its number is a [*ForkedError].
	AddReceipts(ctx context.Context, receipts ...Receipt) error
	// LeftOpen returns the calls that this instance has open, the first first.
	LeftOpen(ctx context.Context) ([]OpenCall, error)
	// Chain returns receipts of a session in their order, from a number on: at most [MaxChain], and not more than limit.
	Chain(ctx context.Context, session string, from int64, limit int) ([]Receipt, error)
	// LastReceipt returns the last receipt of a session. Where there is none, it returns [ErrNotFound].
	LastReceipt(ctx context.Context, session string) (Receipt, error)
}
