package ledger

import (
	"context"
	"errors"
	"time"
)

// MaxChain bounds the receipts returned by Chain.
const MaxChain = 1000

// OpenCall is a call that needs a receipt, or a session whose chain needs its last one. It is stored before the call is
// sent, so that a crash leaves no call without a receipt and no chain without an end.
type OpenCall struct {
	ID      string // of the call's record, or of the session
	Session string
	Started time.Time
	Draft   string // what the signer knows before the call, in its own form
}

// Check refuses a call without id, session or start.
func (c OpenCall) Check() error {
	if c.ID == "" || c.Session == "" || c.Started.IsZero() {
		return Unavailable("open a call", errors.New("it lacks its id, session or start"))
	}
	return nil
}

// Receipt is a signed interaction receipt and its place in the chain.
type Receipt struct {
	Session string    `json:"session"`
	Number  int64     `json:"number"` // in the chain, without gaps
	Call    string    `json:"call"`   // id of the call's record, or of the session at its end
	Signed  time.Time `json:"signed"` // to the millisecond
	Token   string    `json:"token"`
}

// Standing is the state of a session's chain when a post was attested.
type Standing struct {
	Number int64    `json:"number"`         // of the last receipt, or 0
	Head   string   `json:"head,omitempty"` // its hash
	Open   []string `json:"open,omitempty"` // calls without a receipt
}

// Check refuses a receipt with an empty member. It opens no token.
func (r Receipt) Check() error {
	if r.Session == "" || r.Call == "" || r.Token == "" || r.Signed.IsZero() {
		return Unavailable("write the receipt", errors.New("it lacks its session, call, time or token"))
	}
	return nil
}

// Receipts keeps chains of interaction receipts and open calls. It is safe for concurrent use.
type Receipts interface {
	// OpenCalls stores open calls in one transaction. It leaves calls already open unchanged.
	OpenCalls(ctx context.Context, calls ...OpenCall) error
	// AddReceipts stores receipts and closes their calls, in one transaction. It can be repeated: stored receipts stay
	// as they are. A receipt with a stored one's number and another token is a [*ForkedError].
	AddReceipts(ctx context.Context, receipts ...Receipt) error
	// LeftOpen returns this instance's open calls, oldest first.
	LeftOpen(ctx context.Context) ([]OpenCall, error)
	// Chain returns a session's receipts in order from a number: at most limit, and at most [MaxChain].
	Chain(ctx context.Context, session string, from int64, limit int) ([]Receipt, error)
	// LastReceipt returns a session's last receipt, or [ErrNotFound].
	LastReceipt(ctx context.Context, session string) (Receipt, error)
}
