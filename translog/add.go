package translog

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog/leaf"
)

const (
	beat = time.Minute
	// maxWaiting bounds the leaves in memory that the store does not take.
	maxWaiting = 10_000
)

func (l *Log) beat(ctx context.Context) {
	for {
		now := l.o.Now()
		minute := now.Truncate(beat)
		name := strconv.FormatInt(minute.Unix(), 10)
		l.mu.Lock()
		l.pulse = leaf.ID(leaf.Heartbeat, name)
		l.mu.Unlock()
		l.Add(leaf.Heartbeat, name, leaf.Document{})
		if every.Sleep(ctx, minute.Add(beat).Sub(now)) != nil {
			return
		}
	}
}

// waiting is a leaf that is not stored yet. It gets its time when it is: while the store failed, others may have stored
// later leaves, and an earlier time after theirs would look like a lie.
type waiting struct {
	kind     leaf.Kind
	name     string
	document leaf.Document
}

// Add stores a leaf that is of no record: name is as in [leaf.Opening.Leaf]. It does not wait: [Log.Run] stores the
// leaf, again and again while the store fails, and [Log.Close] what is left.
func (l *Log) Add(kind leaf.Kind, name string, d leaf.Document) {
	l.mu.Lock()
	full := len(l.waiting) >= maxWaiting
	if !full {
		l.waiting = append(l.waiting, waiting{kind, name, d})
	}
	l.mu.Unlock()
	if full {
		l.o.Failed(fmt.Errorf("the log lacks the %s: %d leaves wait for the ledger already", leaf.ID(kind, name),
			maxWaiting))
	}
	every.Signal(l.added)
}

// storeWaiting stores the leaves that wait. A failure may have stored them; the store skips those that it has.
func (l *Log) storeWaiting(ctx context.Context) error {
	l.mu.Lock()
	first := l.waiting[:min(len(l.waiting), maxBatch)]
	l.mu.Unlock()
	if len(first) == 0 {
		return nil
	}
	leaves := make([]ledger.Leaf, len(first))
	for i, w := range first {
		leaves[i] = leaf.New(w.kind, l.o.Now(), w.document).Leaf(w.name)
	}
	if err := l.store.AddLeaves(ctx, leaves...); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting = l.waiting[len(first):]; len(l.waiting) > 0 {
		every.Signal(l.added)
	}
	l.Wake()
	return nil
}

// Close stores the leaves that [Log.Add] still holds, and signs a checkpoint with them. Run must have ended.
func (l *Log) Close(ctx context.Context) error {
	for waits := true; waits; {
		if err := l.storeWaiting(ctx); err != nil {
			return err
		}
		l.mu.Lock()
		waits = len(l.waiting) > 0
		l.mu.Unlock()
	}
	return l.Publish(ctx)
}
