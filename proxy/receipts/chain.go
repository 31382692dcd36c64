package receipts

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/cond"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

const (
	// Beyond maxUnsigned ended calls without a receipt no call is sent.
	maxUnsigned   = 64
	endingTimeout = time.Second
)

// Chain costs nothing before the first receipt. It is safe for concurrent use.
type Chain struct {
	// Enforcement returns the claim of that name for the next receipt. Set it before the first call; nil means that it
	// is not known, as for a session of an earlier process.
	Enforcement func() string

	session, event string
	opened         time.Time
	key            [inference.MinKey]byte // for HMACs; it never leaves the process
	seed           maphash.Seed

	mu      sync.Mutex       // guards all below
	keeper  *Keeper          // nil before the first receipt
	open    map[string]*Call // by the id of their record
	going   int              // open calls that need no receipt
	ended   []*Call          // without a receipt, in the order of their ends
	working bool             // a goroutine signs
	failure error            // of the last attempt, or nil
	changed *sync.Cond       // broadcast after every change of these fields
	known   bool             // the ledger has the chain

	number int64
	head   string
	issued int64
	totals interaction.SessionTotals // of the last receipt

	challenge challenge
	answers   int64 // model calls with a whole answer

	policy  string // the last PolicyID
	closing string // why the session has ended, or ""
	closed  bool   // the chain has its last receipt
	gone    bool   // the session's memory is released
	memory  memory
}

// NewChain makes a session's chain without receipts. key is for HMACs.
func NewChain(session, event string, opened time.Time, key [inference.MinKey]byte) *Chain {
	c := &Chain{session: session, event: event, opened: opened, key: key, seed: maphash.MakeSeed()}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// settleEnding waits briefly for calls whose answer has ended: an agent may be faster than its call's end. The caller
// holds c.mu.
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
	_ = cond.Wait(ctx, c.changed, settled)
}

// Answers counts model calls with a whole answer, and waits briefly for calls about to end.
func (c *Chain) Answers(ctx context.Context) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleEnding(ctx)
	return c.answers
}

// The chain closes once every call has its receipt. Only the first reason counts.
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

// work signs in a goroutine, and forgets a session that ended without receipts. The caller holds c.mu.
func (c *Chain) work() {
	switch {
	case c.working:
	case c.next() != nil:
		c.working = c.keeper.start(c)
	case c.closing != "" && len(c.open) == 0 && c.going == 0:
		c.keeper.forget(c)
	}
}

// The session's end gets its receipt once no call is open. The caller holds c.mu.
func (c *Chain) next() *Call {
	switch {
	case len(c.ended) > 0:
		return c.ended[0]
	case c.closing != "" && (c.known || c.number > 0) && !c.closed && len(c.open) == 0 && c.going == 0:
		return c.end()
	}
	return nil
}

// If takeNext returns nil, the goroutine ends. The session's end joins the ended calls until it has its receipt.
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

func (c *Chain) attempted(call *Call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure = err; err == nil {
		claims := call.signed.Claims()
		c.number, c.head = claims.Chain.SequenceNumber, call.signed.Hash()
		c.issued, c.totals = claims.IssuedAt, claims.Session
		// a chain left by an earlier process relays nothing
		m := &c.memory
		m.relayCount -= min(claims.RelayedCount, m.relayCount)
		m.relays = m.relays[max(0, int64(len(m.relays))-m.relayCount):]
		call.made, c.ended = true, c.ended[1:]
	}
	c.changed.Broadcast()
}

func (c *Chain) standing(ctx context.Context) (*evidence.InteractionHead, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleEnding(ctx)
	if cond.Wait(ctx, c.changed, func() bool { return len(c.ended) == 0 || c.failure != nil }) != nil ||
		len(c.ended) > 0 {
		return nil, c.unsigned()
	}
	h := &evidence.InteractionHead{HeadHash: c.head, Number: c.number}
	for id, call := range c.open {
		if call.known { // others may never be sent
			h.OpenCalls = append(h.OpenCalls, id)
		}
	}
	if open := len(h.OpenCalls); open > evidence.MaxOpenCalls {
		return nil, refusal.New("interaction_calls_open",
			"%d calls of this session are open, but its receipt can name only %d",
			open, evidence.MaxOpenCalls)
	}
	slices.Sort(h.OpenCalls)
	return h, nil
}

// unsigned refuses what needs the missing receipts, and blames the ledger if it stores none. The caller holds c.mu.
func (c *Chain) unsigned() error {
	if _, ok := errors.AsType[*ledger.Error](c.failure); ok {
		return c.failure
	}
	err := refusal.New("custody_unavailable", "%d calls of this session have ended and have no receipt yet",
		len(c.ended))
	if c.failure != nil {
		return err.ForOperator("the last attempt to make one failed: %v", c.failure)
	}
	return err
}

// admit keeps an agent from making its chain too long to read: its session would never count. The caller holds c.mu.
func (c *Chain) admit() error {
	const thisAndTheLast = 2
	switch {
	case c.closing != "":
		return refusal.New("session_required", "the session of the call has ended")
	case c.number+int64(len(c.ended)+len(c.open)) > interaction.MaxReceipts-thisAndTheLast:
		return refusal.New("session_full",
			"the session's receipts and open calls have reached the limit of its chain, %d receipts",
			interaction.MaxReceipts)
	case len(c.ended) >= maxUnsigned:
		return c.unsigned()
	}
	return nil
}

// opening returns the ledger's entries for a call and, before the first one, the session's end. The caller holds c.mu.
func (c *Chain) opening(call *Call) ([]ledger.OpenCall, error) {
	open, err := call.row(call.id, call.started)
	if err != nil || c.known {
		return []ledger.OpenCall{open}, err
	}
	session, err := c.openEnd()
	return []ledger.OpenCall{open, session}, err
}

// openEnd returns the ledger's entry for the session's end, in case of a crash. The caller holds c.mu.
func (c *Chain) openEnd() (ledger.OpenCall, error) {
	end := c.end()
	end.claims.Closing = &interaction.Closing{Reason: interaction.ClosedLost}
	end.claims.Challenge = nil // unknown until the end
	return end.row(c.session, c.opened)
}
