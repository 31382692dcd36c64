package receipts

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

const (
	// maxUnsigned is how many calls of a session may have ended without a receipt. No further one is sent then.
	maxUnsigned = 64
	// endingTimeout bounds the wait for calls whose answer has come to its end.
	endingTimeout = time.Second
)

// Chain is the chain of one session. It is safe for concurrent use. It costs nothing until the first call of which a
// receipt is made.
type Chain struct {
	session, event string
	opened         time.Time
	key            [inference.MinKey]byte // of the HMACs; it never leaves the process
	seed           maphash.Seed

	mu      sync.Mutex       // guards all below
	keeper  *Keeper          // nil until the first call of which a receipt is made
	open    map[string]*Call // by the id of their record
	going   int              // calls without a receipt that are not over
	ended   []*Call          // that have no receipt yet, in the order in which they ended
	working bool             // a goroutine signs
	failure error            // why the last attempt failed
	changed *sync.Cond       // broadcast when anything above or below has changed
	known   bool             // the ledger knows that the session has a chain

	number int64                     // of the last receipt
	head   string                    // its hash
	issued int64                     // its iat
	totals interaction.SessionTotals // its counts

	challenge challenge
	answers   int64 // calls to models that have ended with a whole answer

	policy  string // the last PolicyID
	closing string // why the session has ended; empty while it has not
	closed  bool   // the chain has its last receipt
	gone    bool   // nothing more is remembered of the session
	memory  memory
}

// NewChain makes the chain of a session that an event has opened.
func NewChain(session, event string, opened time.Time, key [inference.MinKey]byte) *Chain {
	c := &Chain{session: session, event: event, opened: opened, key: key, seed: maphash.MakeSeed()}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// wait waits until a condition holds or ctx ends. The caller holds c.mu.
func (c *Chain) wait(ctx context.Context, until func() bool) error {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})()
	for !until() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.changed.Wait()
	}
	return nil
}

// settleEnding waits, for a short time, until the calls whose answer has come to its end have ended: an agent that has
// the whole answer may be faster than the end of its call. The caller holds c.mu.
func (c *Chain) settleEnding(ctx context.Context) {
	settled := func() bool {
		for _, call := range c.open {
			if call.ending {
				return false
			}
		}
		return true
	}
	if settled() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endingTimeout)
	defer cancel()
	_ = c.wait(ctx, settled)
}

// Answers returns how many calls of the session to models have ended with a whole answer. It waits a short time for
// calls that are about to end.
func (c *Chain) Answers(ctx context.Context) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleEnding(ctx)
	return c.answers
}

// Close says that the session has ended. The chain is closed when every call is over and the last has its receipt. Only
// the first reason counts.
func (c *Chain) Close(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing == "" {
		c.closing = reason
	}
	if c.keeper != nil {
		c.work()
	}
}

// work has a goroutine sign what can be signed. A session that has ended without a receipt is forgotten. The caller
// holds c.mu.
func (c *Chain) work() {
	switch {
	case c.working:
	case c.next() != nil:
		c.working = c.keeper.start(c)
	case c.closing != "" && len(c.open) == 0 && c.going == 0:
		c.keeper.forget(c)
	}
}

// next returns the call whose receipt is the next: one that has ended, or the end of the session once no call is open.
// The caller holds c.mu.
func (c *Chain) next() *Call {
	switch {
	case len(c.ended) > 0:
		return c.ended[0]
	case c.closing != "" && (c.known || c.number > 0) && !c.closed && len(c.open) == 0 && c.going == 0:
		return c.end()
	}
	return nil
}

// takeNext returns the call whose receipt the chain's goroutine makes next; nil if there is none, and the goroutine
// ends. The end of the session is kept like another call until it has its receipt.
func (c *Chain) takeNext() *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.next()
	switch {
	case call == nil:
		c.working = false
		if c.closed {
			c.keeper.forget(c)
		}
	case len(c.ended) == 0:
		call.claims.Closing = &interaction.Closing{Reason: c.closing}
		c.ended, c.closed = append(c.ended, call), true
	}
	return call
}

// attempted notes that the receipt of the next call was made, or why not.
func (c *Chain) attempted(call *Call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure = err; err == nil {
		claims := call.signed.Claims()
		c.number, c.head = claims.Chain.SequenceNumber, call.signed.Hash()
		c.issued, c.totals = claims.IssuedAt, claims.Session
		c.memory.told(min(claims.RelayedCount, c.memory.relayCount)) // nothing is relayed in a chain that was left open
		call.made, c.ended = true, c.ended[1:]
	}
	c.changed.Broadcast()
}

// standing waits until every call that has ended has its receipt, and returns where the chain stands.
func (c *Chain) standing(ctx context.Context) (*evidence.InteractionHead, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleEnding(ctx)
	if c.wait(ctx, func() bool { return len(c.ended) == 0 || c.failure != nil }) != nil || len(c.ended) > 0 {
		return nil, c.unsigned()
	}
	h := &evidence.InteractionHead{HeadHash: c.head, Number: c.number}
	for id, call := range c.open {
		if call.known { // any other is not sent yet, and may never be
			h.OpenCalls = append(h.OpenCalls, id)
		}
	}
	if open := len(h.OpenCalls); open > evidence.MaxOpenCalls {
		return nil, refusal.New("interaction_calls_open", "%d calls of this session are open, and its receipt can name %d",
			open, evidence.MaxOpenCalls)
	}
	slices.Sort(h.OpenCalls)
	return h, nil
}

// unsigned refuses a call because receipts of the session lack their signature. The caller holds c.mu.
func (c *Chain) unsigned() error {
	err := refusal.New("custody_unavailable", "%d calls of this session have ended and have no receipt yet", len(c.ended))
	if c.failure != nil {
		return err.ForOperator("the last attempt to make one failed: %v", c.failure)
	}
	return err
}

// admit refuses a call of a session that has ended, that has too many calls without a receipt, or whose chain would
// have no room for the receipts of its calls and for the last one: an agent could otherwise make its chain too long to
// be read, and its session would never count. The caller holds c.mu.
func (c *Chain) admit() error {
	const thisAndTheLast = 2
	switch {
	case c.closing != "":
		return refusal.New("session_required", "the session of the call has ended")
	case c.number+int64(len(c.ended)+len(c.open)) > interaction.MaxReceipts-thisAndTheLast:
		return refusal.New("session_full",
			"the session has as many receipts, and calls that will have one, as the %d of a chain allow",
			interaction.MaxReceipts)
	case len(c.ended) >= maxUnsigned:
		return c.unsigned()
	}
	return nil
}

// opening returns what the ledger keeps before a call is sent: the call, and with the first one that the session has a
// chain. The caller holds c.mu.
func (c *Chain) opening(call *Call) ([]ledger.OpenCall, error) {
	open, err := call.row(call.id, call.started)
	if err != nil || c.known {
		return []ledger.OpenCall{open}, err
	}
	end := c.end()
	end.claims.Closing = &interaction.Closing{Reason: interaction.ClosedLost}
	end.claims.Challenge = nil // nobody will know any more how it stands then
	session, err := end.row(c.session, c.opened)
	return []ledger.OpenCall{open, session}, err
}
