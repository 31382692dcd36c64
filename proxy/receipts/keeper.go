package receipts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

const (
	signTimeout = 10 * time.Second
	// pauses between attempts
	firstRetry, lastRetry = 100 * time.Millisecond, 4 * time.Second
	maxMemory             = 64 << 20
)

// Issuer signs receipts. [signer.Issuer] implements it.
type Issuer interface {
	Issue(ctx context.Context, c interaction.Receipt) (evidence.Opened[interaction.Receipt], error)
}

// Ledger stores receipts and open calls. [ledger.Queue] implements it.
type Ledger interface {
	OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error
	LeftOpen(ctx context.Context) ([]ledger.OpenCall, error)
	LastReceipt(ctx context.Context, session string) (ledger.Receipt, error)
	AddReceiptLater(r ledger.Receipt) error
	SettleReceipts(ctx context.Context, session string) error
}

// All are required.
type Options struct {
	Issuer Issuer
	Ledger Ledger
	// the same in every receipt: see [interaction.Receipt]
	Owner, Agent, Runtime string
	Now                   func() time.Time
	Log                   *zap.Logger
}

// A nil Keeper makes no receipts; only Close needs a non-nil one. Keeper is safe for concurrent use.
type Keeper struct {
	o       Options
	memory  share.Pool // of all sessions, in bytes
	workers sync.WaitGroup
	life    context.Context //nolint:containedctx // ends with Close
	stop    context.CancelFunc

	mu     sync.Mutex      // guards all below; lock a chain's first
	active map[*Chain]bool // have receipts, not closed
	closed bool
}

// In the background New closes the chains that an earlier process left open.
func New(ctx context.Context, o Options) (*Keeper, error) {
	if o.Issuer == nil || o.Ledger == nil || o.Owner == "" || o.Agent == "" || o.Runtime == "" || o.Now == nil ||
		o.Log == nil {
		return nil, errors.New("receipts: the keeper lacks one of its parts")
	}
	left, err := o.Ledger.LeftOpen(ctx)
	if err != nil {
		return nil, err
	}
	k := &Keeper{o: o, active: make(map[*Chain]bool)}
	k.life, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	sessions := make(map[string][]ledger.OpenCall)
	for _, c := range left {
		sessions[c.Session] = append(sessions[c.Session], c)
	}
	for session, calls := range sessions { // apart: one that cannot be read is tried for ever
		k.workers.Go(func() { k.closeLeft(session, calls) })
	}
	return k, nil
}

// closeLeft makes the receipts of calls that an earlier process left open.
func (k *Keeper) closeLeft(session string, left []ledger.OpenCall) {
	c := &Chain{session: session, keeper: k, known: true, closing: interaction.ClosedLost, working: true}
	c.changed = sync.NewCond(&c.mu)
	read := retrying(k.life, func() error {
		last, err := k.o.Ledger.LastReceipt(k.life, session)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		claims, err := evidence.UnverifiedClaims(interaction.Kind, last.Token)
		c.number, c.head, c.issued = last.Number, evidence.HashToken(last.Token), claims.IssuedAt
		c.totals, c.closed = claims.Session, claims.Closing != nil
		return err
	}, func(err error) {
		k.o.Log.Error("the chain of a session that an earlier process has left open cannot be read",
			zap.String("session", session), zap.Error(err))
	})
	if !read || c.closed {
		return
	}
	slices.SortStableFunc(left, func(a, b ledger.OpenCall) int {
		switch session { // its end comes last
		case a.ID:
			return 1
		case b.ID:
			return -1
		}
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID))
	})
	for _, row := range left {
		call := &Call{chain: c, id: row.ID}
		if err := json.Unmarshal([]byte(row.Draft), &call.claims); err != nil {
			k.o.Log.Error("what is known of a call that an earlier process has left open cannot be read",
				zap.String("post", row.ID), zap.Error(err))
			return
		}
		if row.ID != session {
			call.result = func(call *Call) { call.claims.Outcome = interaction.OutcomeIndeterminate }
		}
		c.ended = append(c.ended, call)
	}
	c.closing = "" // the last draft is the session's end
	k.sign(c)
}

// retrying tries until it succeeds, ctx ends or the chain has forked. failed gets the first error.
func retrying(ctx context.Context, try func() error, failed func(error)) bool {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		if pause == firstRetry {
			failed(err)
		}
		if errors.Is(err, ledger.ErrForked) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// sign gives up a forked chain: the session makes no more posts, and the next start tries again to close its calls.
func (k *Keeper) sign(c *Chain) {
	for call := c.takeNext(); call != nil; call = c.takeNext() {
		if call.result != nil {
			call.result(call)
			call.result = nil
		}
		made := retrying(k.life, func() error { return k.attempt(c, call) }, func(err error) {
			k.o.Log.Error("the receipt of a call could not be made: the session makes no posts until it is",
				zap.String("session", c.session), zap.String("post", call.id), zap.Error(err))
		})
		if !made {
			c.mu.Lock()
			defer c.mu.Unlock()
			k.forget(c)
			return // the next start closes it
		}
	}
}

func (k *Keeper) attempt(c *Chain, call *Call) error {
	err := k.issue(c, call)
	if err == nil {
		err = k.openEnd(c)
	}
	if err == nil {
		claims := call.signed.Claims()
		err = k.o.Ledger.AddReceiptLater(ledger.Receipt{
			Session: c.session, Number: claims.Chain.SequenceNumber, Call: call.id,
			Signed: time.Unix(claims.IssuedAt, 0), Token: call.signed.Token(),
		})
	}
	c.attempted(call, err)
	return err
}

// openEnd stores the session's end before its first receipt, if the ledger failed to do that with the call: otherwise a
// crash would leave the chain open for ever.
func (k *Keeper) openEnd(c *Chain) error {
	c.mu.Lock()
	known := c.known
	var end ledger.OpenCall
	var err error
	if !known {
		end, err = c.openEnd()
	}
	c.mu.Unlock()
	if known || err != nil {
		return err
	}
	if err := k.o.Ledger.OpenCalls(k.life, end); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = true
	return nil
}

// No other receipt gets the number of a signed one.
func (k *Keeper) issue(c *Chain, call *Call) error {
	if call.signed.Token() != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(k.life, signTimeout)
	defer cancel()
	signed, err := k.o.Issuer.Issue(ctx, c.unsignedClaims(call))
	if err != nil {
		return err
	}
	if signed.Claims().IssuedAt < c.issued {
		return errors.New("receipts: the clock is earlier than the previous receipt")
	}
	call.signed = signed
	failpoint.Reach("receipt signed")
	return nil
}

func (c *Chain) counted() interaction.SessionTotals {
	t := c.memory.totals
	t.OpenedMS = c.opened.UnixMilli()
	return t
}

func (c *Chain) unsignedClaims(call *Call) interaction.Receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	claims := call.claims
	// The current owner certified the signing key, even for calls that an earlier process left open.
	claims.Owner = c.keeper.o.Owner
	claims.Chain = interaction.ChainLink{PreviousReceiptHash: c.head, SessionID: c.session,
		SequenceNumber: c.number + 1}
	if c.Enforcement != nil {
		claims.Enforcement = c.Enforcement()
	}
	if !c.opened.IsZero() { // a chain left by an earlier process has its counts in the drafts
		claims.Session = c.counted()
		claims.Relayed, claims.RelayedCount = slices.Clone(c.memory.relays), c.memory.relayCount
	}
	t := &claims.Session // drafts are older, but counts must never fall
	t.Calls, t.CallsObserved = max(t.Calls, c.totals.Calls), max(t.CallsObserved, c.totals.CallsObserved)
	t.BytesOut, t.BytesOutObserved = max(t.BytesOut, c.totals.BytesOut),
		max(t.BytesOutObserved, c.totals.BytesOutObserved)
	// The clock may have been set back. No moment may be later than one that followed it.
	latest := c.keeper.o.Now().UnixMilli()
	for _, at := range []*int64{&claims.Timing.ResponseSent, &claims.Timing.LLMEnd, &claims.Timing.LLMStart,
		&claims.Timing.RequestReceived} {
		if *at != 0 {
			latest = min(*at, latest)
			*at = latest
		}
	}
	if claims.Model != nil {
		claims.Model.Figures.Complete() // a draft has only the figures known before the call
	}
	claims.Observed = interaction.ObservedOf(claims)
	return claims
}

// Head waits until the receipts of all ended calls are stored, and refuses while one cannot be signed.
func (k *Keeper) Head(ctx context.Context, c *Chain) (*evidence.InteractionHead, error) {
	if k == nil {
		return nil, nil
	}
	h, err := c.standing(ctx)
	if err != nil {
		return nil, err
	}
	return h, k.settle(ctx, c)
}

func (k *Keeper) settle(ctx context.Context, c *Chain) error {
	err := k.o.Ledger.SettleReceipts(ctx, c.session)
	if errors.Is(err, ledger.ErrForked) {
		return refusal.New("custody_unavailable",
			"the receipts of this session can no longer be kept").ForOperator("%v", err)
	}
	return err
}

func (k *Keeper) begin(c *Chain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper != nil {
		return
	}
	c.keeper, c.open = k, make(map[string]*Call)
	if c.gone = c.closing != ""; c.gone { // ended without a call: nothing will follow
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active[c] = true
}

// The caller holds c.mu.
func (k *Keeper) forget(c *Chain) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.active, c)
	k.memory.Give(c.session, c.memory.taken)
	c.memory, c.gone = memory{}, true
}

// start fails once the keeper is closed.
func (k *Keeper) start(c *Chain) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.workers.Go(func() { k.sign(c) })
	}
	return !k.closed
}

// The caller holds c.mu.
func (c *Chain) take(n int64) bool {
	// No one would release the memory of a forgotten session.
	if c.gone || !c.keeper.memory.Take(c.session, n, maxMemory) {
		return false
	}
	c.memory.taken += n
	return true
}

// Measure returns nil without a keeper. It waits briefly for calls about to end, whose answers must be remembered.
func (k *Keeper) Measure(ctx context.Context, c *Chain) *inference.Measure {
	if k == nil {
		return nil
	}
	k.begin(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleEnding(ctx)
	return &inference.Measure{Seed: c.seed, Known: c.knows}
}

// Close waits for the receipts of all chains until ctx ends. The next start closes the rest.
func (k *Keeper) Close(ctx context.Context) {
	k.mu.Lock()
	chains := make([]*Chain, 0, len(k.active))
	for c := range k.active {
		chains = append(chains, c)
	}
	k.mu.Unlock()
	for _, c := range chains {
		c.Close(interaction.ClosedShutdown)
	}
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	defer context.AfterFunc(ctx, k.stop)()
	k.workers.Wait()
	k.stop()
	for _, c := range chains {
		if k.o.Ledger.SettleReceipts(ctx, c.session) != nil {
			return // the ledger logs what it could not store
		}
	}
}
