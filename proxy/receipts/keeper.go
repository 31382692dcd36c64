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
	// signTimeout bounds one attempt to sign a receipt.
	signTimeout = 10 * time.Second
	// firstRetry and lastRetry bound the pauses after attempts that failed.
	firstRetry, lastRetry = 100 * time.Millisecond, 4 * time.Second
	// maxMemory bounds what is remembered of all sessions, in bytes.
	maxMemory = 64 << 20
)

// Issuer signs receipts. [signer.Issuer] does.
type Issuer interface {
	Issue(ctx context.Context, c interaction.Receipt) (evidence.Opened[interaction.Receipt], error)
}

// Ledger keeps receipts, and which calls are open. [ledger.Queue] does.
type Ledger interface {
	OpenCalls(ctx context.Context, calls ...ledger.OpenCall) error
	LeftOpen(ctx context.Context) ([]ledger.OpenCall, error)
	LastReceipt(ctx context.Context, session string) (ledger.Receipt, error)
	AddReceiptLater(r ledger.Receipt) error
	SettleReceipts(ctx context.Context, session string) error
}

// Options are what a [Keeper] works with. All are required.
type Options struct {
	Issuer Issuer
	Ledger Ledger
	// Owner, Agent and Runtime stand in every receipt: see [interaction.Receipt].
	Owner, Agent, Runtime string
	Now                   func() time.Time
	Log                   *zap.Logger
}

// Keeper makes receipts. It is safe for concurrent use. To all methods but Close nil is one that makes none.
type Keeper struct {
	o       Options
	memory  share.Pool // bytes of what is remembered of all sessions
	workers sync.WaitGroup
	life    context.Context //nolint:containedctx // ends with Close
	stop    context.CancelFunc

	mu     sync.Mutex      // guards all below; taken after that of a chain
	active map[*Chain]bool // that have begun and are not closed
	closed bool
}

// New makes a Keeper and takes over what an earlier process has left open: receipts that say so are made beside its
// caller.
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
	k.workers.Go(func() {
		for session, calls := range sessions {
			k.closeLeft(session, calls)
		}
	})
	return k, nil
}

// closeLeft makes the receipts of what an earlier process has left open in a session, and closes its chain. Nobody else
// does, so it goes on until it succeeds.
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
	c.closing = "" // its draft is the last of what was left
	k.sign(c)
}

// retrying tries until try succeeds or ctx ends, or the chain has forked, and reports whether it has succeeded. failed
// is told of the first failure.
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

// sign makes the receipts of a chain, one after the other, until there is none to be made. It gives up a chain that has
// forked: the session makes no post any more, and the next start tries again to close what is open.
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
			return // what is open is closed at the next start
		}
	}
}

// attempt signs the receipt of the call that is the next of a chain, and hands it to the ledger.
func (k *Keeper) attempt(c *Chain, call *Call) error {
	err := k.issue(c, call)
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

// issue signs the receipt of a call, once: no other receipt gets its number.
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
		return errors.New("receipts: the clock stands before the time of the receipt before")
	}
	call.signed = signed
	failpoint.Reach("receipt signed")
	return nil
}

// counted returns the counts of the session until now. The caller holds c.mu.
func (c *Chain) counted() interaction.SessionTotals {
	t := c.memory.totals
	t.OpenedMS = c.opened.UnixMilli()
	return t
}

// unsignedClaims returns the claims of a call as they are signed: at the end of the chain, with what was counted until
// now.
func (c *Chain) unsignedClaims(call *Call) interaction.Receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	claims := call.claims
	// by whose registry the key is certified that signs, also of what an earlier process has left open
	claims.Owner = c.keeper.o.Owner
	claims.Chain = interaction.ChainLink{PreviousReceiptHash: c.head, SessionID: c.session, SequenceNumber: c.number + 1}
	if !c.opened.IsZero() { // not of a session that an earlier process has left open, whose counts stand in the draft
		claims.Session = c.counted()
		claims.Relayed, claims.RelayedCount = slices.Clone(c.memory.relays), c.memory.relayCount
	}
	t := &claims.Session // no receipt counts less than the one before it: a draft was made earlier
	t.Calls, t.CallsObserved = max(t.Calls, c.totals.Calls), max(t.CallsObserved, c.totals.CallsObserved)
	t.BytesOut, t.BytesOutObserved = max(t.BytesOut, c.totals.BytesOut), max(t.BytesOutObserved, c.totals.BytesOutObserved)
	// the clock may have been set back, and no moment is later than one that followed it
	latest := c.keeper.o.Now().UnixMilli()
	for _, at := range []*int64{&claims.Timing.ResponseSent, &claims.Timing.LLMEnd, &claims.Timing.LLMStart,
		&claims.Timing.RequestReceived} {
		if *at != 0 {
			latest = min(*at, latest)
			*at = latest
		}
	}
	if claims.Model != nil {
		claims.Model.Figures.Complete() // a draft has only those that were known before the call was sent
	}
	claims.Observed = interaction.ObservedOf(claims)
	return claims
}

// Head waits until the receipts of all calls of a session are stored that have ended, and returns where its chain
// stands. It refuses (custody_unavailable) while one cannot be signed.
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

// settle waits until all receipts of a chain are stored that were handed to the ledger.
func (k *Keeper) settle(ctx context.Context, c *Chain) error {
	err := k.o.Ledger.SettleReceipts(ctx, c.session)
	if errors.Is(err, ledger.ErrForked) {
		return refusal.New("custody_unavailable", "no receipt of this session is kept any more").ForOperator("%v", err)
	}
	return err
}

// begin takes a chain into the keeper's care.
func (k *Keeper) begin(c *Chain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper != nil {
		return
	}
	c.keeper, c.open = k, make(map[string]*Call)
	if c.gone = c.closing != ""; c.gone { // it has ended without a call, and will have none
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active[c] = true
}

// forget leaves a chain that is closed. The caller holds its mutex.
func (k *Keeper) forget(c *Chain) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.active, c)
	k.memory.Give(c.session, c.memory.taken)
	c.memory, c.gone = memory{}, true
}

// start has a goroutine sign what a chain has, and reports whether it does: not once the keeper is closed.
func (k *Keeper) start(c *Chain) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.workers.Go(func() { k.sign(c) })
	}
	return !k.closed
}

// take takes n bytes for what is remembered of a session, and reports whether there were as many. The caller holds
// c.mu.
func (c *Chain) take(n int64) bool {
	// nobody would give back what is taken for a session that is gone
	if c.gone || !c.keeper.memory.Take(c.session, n, maxMemory) {
		return false
	}
	c.memory.taken += n
	return true
}

// Measure returns what the reading of a session's next call to a model is asked for, or nil. It waits a short time for
// calls that are about to end: what they have said is to be remembered by then.
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

// Close closes the chains of all sessions, and waits until their receipts are stored, as long as ctx allows. What has
// none then is closed at the next start.
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
			return // the ledger says in the log what it could not store
		}
	}
}
