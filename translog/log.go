package translog

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog/leaf"
)

const (
	// maxBatch bounds the leaves of one transaction, so that no post waits long for it.
	maxBatch = 512
	// DefaultInterval is the time between two checkpoints without a caller in [Log.Wait].
	DefaultInterval = 10 * time.Second
)

// Options configure a [Log].
type Options struct {
	Key Key // of the log
	// Former are earlier keys of the log: its last checkpoints may have their signatures.
	Former []Key
	// Policy names the witnesses, and the log with Key.
	Policy *Policy
	// Interval is the longest time from a leaf to its checkpoint: DefaultInterval if zero.
	Interval time.Duration
	// Now is the clock; required.
	Now func() time.Time
	// Client reaches the witnesses; required if the policy gives a URL of one.
	Client *http.Client
	// Failed gets each error of the background work: a [*WitnessError] if a witness is to blame. Required.
	Failed func(error)
}

// Log numbers the leaves that a ledger stores, and publishes checkpoints. Several processes with one ledger may each
// have one: they take turns. It is safe for concurrent use.
type Log struct {
	store     ledger.Log
	o         Options
	woken     chan struct{}    // a leaf was stored
	hurried   chan struct{}    // somebody waits
	added     chan struct{}    // to waiting
	own       torchwood.Policy // the signature of Key or of a former key
	witnesses []*witness
	// turn is held while this process grows the tree and signs.
	turn sync.Mutex

	mu       sync.Mutex // guards everything below
	changed  chan struct{}
	signed   ledger.Checkpoint // the newest of this process
	accepted ledger.Checkpoint
	seen     []Cosignature // of accepted
	since    time.Time     // when accepted was accepted; before that, when the process began
	open     []*candidate  // checkpoints that witnesses may still cosign, oldest first
	waiting  []waiting
	pulse    string // id of the last heartbeat
}

// New returns the log in the store. It refuses one whose tree is not the one of its last checkpoints, or whose
// checkpoints the key or the witnesses did not sign.
func New(ctx context.Context, store ledger.Log, o Options) (*Log, error) {
	if o.Now == nil || o.Failed == nil || o.Policy == nil || !o.Policy.Names(o.Key) {
		return nil, errors.New("translog: a clock, a reporter of errors and the policy of the key's log are required")
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	l := &Log{store: store, o: o, woken: make(chan struct{}, 1), hurried: make(chan struct{}, 1),
		added: make(chan struct{}, 1), changed: make(chan struct{}), since: o.Now()}
	keys := map[string]note.Verifier{o.Key.vkey: o.Key.verifier}
	for _, k := range o.Former {
		keys[k.vkey] = k.verifier
	}
	l.own = signedBy(keys)
	for _, m := range o.Policy.witnesses {
		if m.url != "" {
			l.witnesses = append(l.witnesses, &witness{member: m, log: l, work: make(chan ledger.Checkpoint, 1)})
		}
	}
	if len(l.witnesses) > 0 && o.Client == nil {
		return nil, errors.New("translog: witnesses need a client")
	}
	return l, l.resume(ctx)
}

// resume checks the stored tree against its checkpoints.
func (l *Log) resume(ctx context.Context) error {
	head, stored, err := l.store.TreeHead(ctx)
	if err != nil {
		return err
	}
	for _, c := range []ledger.Checkpoint{stored.Signed, stored.Accepted} {
		if err := l.continues(ctx, head, c); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signed = stored.Signed
	if stored.Accepted.Note == "" {
		return nil
	}
	if _, n, err := opened(stored.Accepted.Note, l.o.Policy); err == nil { // another policy has it cosigned anew
		l.accepted, l.seen = stored.Accepted, l.o.Policy.cosigned(n)
	}
	return nil
}

// state reads the tree's head and the checkpoints. It refuses one whose stored size is not its own: an old one could
// pass for the newest.
func (l *Log) state(ctx context.Context) (ledger.TreeHead, ledger.Checkpoints, error) {
	head, stored, err := l.store.TreeHead(ctx)
	for _, c := range []ledger.Checkpoint{stored.Signed, stored.Accepted} {
		if err == nil && c.Note != "" {
			_, err = treeIn(c)
		}
	}
	return head, stored, err
}

// continues refuses a tree that does not begin with the one of the checkpoint, or a checkpoint that is not the log's. A
// new origin begins a new log, also in a ledger that was put back: no witness cosigns that under the old one.
func (l *Log) continues(ctx context.Context, head ledger.TreeHead, c ledger.Checkpoint) error {
	of, err := unsigned(c.Note)
	if c.Note == "" || err == nil && of.Origin != l.o.Key.origin && c.Size <= head.Size { // a larger one stays stored
		return nil
	}
	was, _, err := opened(c.Note, l.own)
	if err != nil {
		return contradicted("has a checkpoint that is not its own: %w", err)
	}
	if was.N != c.Size {
		return contradicted("has a malformed checkpoint")
	}
	if head.Size < was.N {
		return contradicted("has %d entries, and had %d when it was signed", head.Size, was.N)
	}
	root, err := tlog.TreeHash(was.N, hashes(ctx, l.store, treeOf(head)))
	if err == nil && root != was.Hash && was.N > 0 {
		err = contradicted("is another one than it was at %d entries", was.N)
	}
	return damaged(err)
}

func treeOf(h ledger.TreeHead) tlog.Tree { return tlog.Tree{N: h.Size, Hash: h.Root} }

// Wake says that leaves were stored. It does not wait.
func (l *Log) Wake() { every.Signal(l.woken) }

// Run numbers leaves, signs checkpoints and has them cosigned until ctx ends. Each minute it adds a heartbeat: a gap
// shows when the log did not run.
func (l *Log) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, w := range l.witnesses {
		all.Go(func() { w.run(ctx) })
	}
	all.Go(func() {
		repeat(ctx, l.added, func(struct{}) error { return l.storeWaiting(ctx) }, l.o.Failed)
	})
	all.Go(func() { l.beat(ctx) })
	var pause time.Duration
	for {
		err := l.Publish(ctx)
		if ctx.Err() != nil {
			return
		}
		if pause = retryAfter(pause, err); err != nil {
			l.o.Failed(err)
			err = every.Sleep(ctx, pause)
		} else {
			err = l.rest(ctx)
		}
		if err != nil {
			return
		}
	}
}

// rest waits until it is time for another checkpoint: after the interval if a leaf was stored, or at once for somebody
// who waits.
func (l *Log) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.hurried:
		return nil
	case <-time.After(l.o.Interval):
	}
	select {
	case <-ctx.Done():
	case <-l.hurried:
	case <-l.woken:
	}
	return ctx.Err()
}

// Publish gives all pending leaves their numbers, and signs a checkpoint if the tree has grown since the last one. The
// witnesses get it afterwards, while [Log.Run] runs.
func (l *Log) Publish(ctx context.Context) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	for n := maxBatch; n == maxBatch; {
		var err error
		failpoint.Reach("log begun")
		if n, err = l.store.Integrate(ctx, maxBatch, Grow); err != nil {
			return err
		}
		failpoint.Reach("log grown")
	}
	head, stored, err := l.state(ctx)
	if err != nil {
		return err
	}
	if own := l.Progress().Signed; own.Note != stored.Signed.Note { // another process has signed since
		if err := l.continues(ctx, head, own); err != nil {
			return err
		}
	}
	last, unasked := l.learn(stored)
	if last.Note != "" && last.Size == head.Size && l.current(last) {
		if unasked {
			return l.offer(ctx, last)
		}
		return nil
	}
	if err := l.continues(ctx, head, last); err != nil {
		return err
	}
	c, err := l.o.Key.Checkpoint(ctx, head)
	if err != nil {
		return err
	}
	failpoint.Reach("log signed")
	if err := l.store.PutCheckpoints(ctx, ledger.Checkpoints{Signed: c}); err != nil {
		return err
	}
	failpoint.Reach("log published")
	return l.offer(ctx, c)
}

// current reports whether the log's present key has signed the checkpoint.
func (l *Log) current(c ledger.Checkpoint) bool {
	_, _, err := opened(c.Note, Unwitnessed(l.o.Key))
	return err == nil
}

// Wait returns when a checkpoint that the policy accepts holds the leaf with this id. Run must run.
func (l *Log) Wait(ctx context.Context, id string) error {
	_, err := l.wait(ctx, id)
	return err
}

// WaitFor is Wait for a post's intent. It refuses an intent that says something else than the record: until the
// witnesses see the leaf, who writes the ledger can put another in its place.
func (l *Log) WaitFor(ctx context.Context, r ledger.Record) error {
	f, err := l.wait(ctx, leaf.ID(leaf.Intent, r.ID))
	if err != nil {
		return err
	}
	o, err := leaf.Open([]byte(f.Opening))
	if err == nil {
		err = o.CheckRecord(r)
	}
	at := time.UnixMilli(o.Entry.Time)
	if err != nil || string(o.Entry.Encode()) != f.Entry || r.Started.Sub(at) > MaxSkew || at.Sub(l.o.Now()) > MaxSkew {
		return contradicted("has another %s than this process stored", f.ID)
	}
	return nil
}

func (l *Log) wait(ctx context.Context, id string) (ledger.Leaf, error) {
	for {
		l.mu.Lock()
		changed, accepted := l.changed, l.accepted
		l.mu.Unlock()
		f, err := l.store.Leaf(ctx, id)
		switch {
		case err != nil && ctx.Err() == nil:
			return f, err
		case err == nil && f.Index >= 0 && f.Index < accepted.Size:
			return f, l.holds(ctx, accepted, f)
		}
		every.Signal(l.hurried)
		select {
		case <-changed:
		case <-ctx.Done():
			return f, refusal.New("log_unwitnessed", "no witnessed checkpoint of the log covers the %s yet", id)
		}
	}
}

// holds refuses a leaf that the checkpoint's tree does not have: its number is only the ledger's word.
func (l *Log) holds(ctx context.Context, c ledger.Checkpoint, f ledger.Leaf) error {
	tree, err := treeIn(c)
	if err != nil {
		return err
	}
	found, err := hashes(ctx, l.store, tree).ReadHashes([]int64{tlog.StoredHashIndex(0, f.Index)})
	if err != nil {
		return damaged(err)
	}
	entry, err := leaf.Parse([]byte(f.Entry))
	if err != nil || !entry.Is(f.ID) || found[0] != tlog.RecordHash([]byte(f.Entry)) {
		return contradicted("does not hold the %s at the number %d, which the ledger has for it", f.ID, f.Index)
	}
	return nil
}

// Check says whether [Log.Wait] would succeed: whether the last heartbeat is in a checkpoint that the policy accepts.
func (l *Log) Check(ctx context.Context) error {
	l.mu.Lock()
	pulse := l.pulse
	l.mu.Unlock()
	err := l.Wait(ctx, pulse)
	if errors.Is(err, ledger.ErrNotFound) {
		err = refusal.New("log_unwitnessed", "the log has no heartbeat yet")
	}
	return err
}

// Status tells how far the log is.
type Status struct {
	Size      int64             // entries with a number
	Signed    ledger.Checkpoint // the newest that this process signed or began with
	Accepted  ledger.Checkpoint // by the policy
	Since     time.Time         // when Accepted was accepted; before that, when the process began
	Witnesses []Cosignature     // of Accepted
	Failures  map[string]error  // of the witnesses whose last answer was none, by name
}

// Status reads the log's state.
func (l *Log) Status(ctx context.Context) (Status, error) {
	head, _, err := l.store.TreeHead(ctx)
	s := l.Progress()
	s.Size = head.Size
	return s, err
}

// Progress is Status as far as this process knows it, without Size.
func (l *Log) Progress() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Signed: l.signed, Accepted: l.accepted, Since: l.since, Witnesses: l.seen,
		Failures: make(map[string]error)}
	for _, w := range l.witnesses {
		if w.failure != nil {
			s.Failures[w.name] = w.failure
		}
	}
	return s
}
