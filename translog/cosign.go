package translog

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
)

// learn takes over what other processes have stored. It returns the newest signed checkpoint, and whether it still
// needs witnesses that this process did not ask.
func (l *Log) learn(stored ledger.Checkpoints) (last ledger.Checkpoint, unasked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last = l.signed; stored.Signed.Size > last.Size || last.Note == "" {
		last = stored.Signed
	}
	if stored.Accepted.Size > l.accepted.Size {
		if _, n, err := opened(stored.Accepted.Note, l.o.Policy); err == nil {
			l.accept(stored.Accepted, n)
		}
	}
	asked := slices.ContainsFunc(l.open, func(c *candidate) bool { return c.Size == last.Size })
	return last, !asked && (l.accepted.Note == "" || l.accepted.Size < last.Size)
}

// accept takes note of an accepted checkpoint, for those who wait. The caller holds l.mu.
func (l *Log) accept(c ledger.Checkpoint, n *note.Note) {
	l.accepted, l.seen, l.since = c, l.o.Policy.cosigned(n), l.o.Now()
	close(l.changed)
	l.changed = make(chan struct{})
}

// offer has a new checkpoint cosigned.
func (l *Log) offer(ctx context.Context, c ledger.Checkpoint) error {
	l.mu.Lock()
	l.signed = c
	l.open = append(l.open, &candidate{Checkpoint: c, text: c.Note})
	l.open = l.open[max(0, len(l.open)-maxCandidates):]
	l.mu.Unlock()
	if c.Size > 0 {
		for _, w := range l.witnesses {
			w.give(c)
		}
	}
	return l.cosign(ctx, c.Size, "")
}

// maxCandidates bounds the checkpoints that slow witnesses may still cosign.
const maxCandidates = 8

type candidate struct {
	ledger.Checkpoint
	text string // with the cosignatures so far
}

// cosign adds signature lines to the checkpoint of this size, and accepts it if the policy does.
func (l *Log) cosign(ctx context.Context, size int64, lines string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		if c.Size != size {
			continue
		}
		if !strings.Contains(c.text, lines) { // the witness answers again after the store failed
			c.text += lines
		}
		_, n, err := opened(c.text, l.o.Policy)
		if err != nil || size < l.accepted.Size {
			return nil // not yet, or no more
		}
		c.Note = c.text
		if err := l.store.PutCheckpoints(ctx, ledger.Checkpoints{Accepted: c.Checkpoint}); err != nil {
			return err
		}
		failpoint.Reach("log cosigned")
		l.accept(c.Checkpoint, n)
		return nil
	}
	return nil
}
