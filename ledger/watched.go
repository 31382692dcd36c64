package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
)

const (
	// markPeriod is how often the mark is noted while the ledger changes. An older copy that lacks no more goes
	// unnoticed.
	markPeriod  = time.Second
	markTimeout = 2 * time.Second
	// maxMark bounds the file of the mark, in bytes.
	maxMark = 4 << 10
)

// Watched is a store with its identity in a file beside it, which shows when the ledger is replaced, emptied or
// restored from a copy. After that it consumes nothing. The file is written after the ledger's commit, so it never
// shows more than the ledger has.
type Watched struct {
	Identified
	path string
	note func(error) // also gets a [*ReplacedError]

	changed  chan struct{} // has room for one: the ledger has changed
	replaced atomic.Pointer[ReplacedError]
	failing  atomic.Pointer[error] // why the mark cannot be noted now
	last     Identity              // as in the file; used by run, then by Close
	stop     context.CancelFunc
	done     chan struct{} // closed when run has ended
}

// LastSeen reads the last seen identity from the file at path, if it exists.
func LastSeen(path string) (last Identity, seen bool, err error) {
	raw, err := files.ReadUpTo(path, maxMark)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, false, nil
	}
	if err == nil {
		if err = json.Unmarshal(raw, &last); err == nil && last.ID == "" {
			err = errors.New("it has no id")
		}
	}
	if err != nil {
		return Identity{}, false, replaced("which ledger was used last cannot be read from %s: %v", path, err)
	}
	return last, true, nil
}

// Note writes the last seen identity to the file at path.
func Note(path string, i Identity) error {
	raw, err := json.Marshal(i)
	if err == nil {
		err = files.Replace(path, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return Unavailable("note its mark", err)
	}
	return nil
}

func compare(ctx context.Context, s Identified, now, last Identity) error {
	switch follows, err := Follows(ctx, s, now, last); {
	case err != nil || follows:
		return err
	case now.ID != last.ID:
		return replaced("the ledger is another one (%s) than before (%s): which keys are consumed, and the records, are "+
			"lost", now.ID, last.ID)
	}
	return replaced("the ledger %s is an older copy: its mark is %d, and was %d; it was accepted %d times, and %d "+
		"before. What was consumed since could be used again", now.ID, now.Mark, last.Mark, now.Accepted, last.Accepted)
}

// Watch compares s with the identity in the file at path, which it creates at a first start. It refuses a replaced
// ledger with a [*ReplacedError]. note gets later errors.
func Watch(ctx context.Context, s Identified, path string, note func(error)) (*Watched, error) {
	last, seen, err := LastSeen(path)
	if err != nil {
		return nil, err
	}
	now, err := s.Identity(ctx)
	if err == nil && seen {
		err = compare(ctx, s, now, last)
	}
	if err == nil {
		err = Note(path, now)
	}
	if err != nil {
		return nil, err
	}
	w := &Watched{Identified: s, path: path, note: note, last: now, changed: make(chan struct{}, 1),
		done: make(chan struct{})}
	ctx, w.stop = context.WithCancel(context.Background())
	go w.run(ctx)
	return w, nil
}

// run notes the mark while the ledger changes. It reports an error once, until the next success.
func (w *Watched) run(ctx context.Context) {
	defer close(w.done)
	for range every.Tick(ctx, markPeriod) {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		if w.replaced.Load() != nil {
			continue
		}
		err := w.look(ctx)
		if err == nil {
			w.failing.Store(nil)
			continue
		}
		every.Signal(w.changed)
		if w.failing.Swap(&err) == nil && ctx.Err() == nil {
			w.note(err)
		}
	}
}

func (w *Watched) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	now, err := w.Identity(ctx)
	if err != nil {
		return err
	}
	if err := compare(ctx, w.Identified, now, w.last); err != nil {
		var replaced *ReplacedError
		if errors.As(err, &replaced) {
			w.replaced.Store(replaced)
		}
		return err
	}
	if err := Note(w.path, now); err != nil {
		return err
	}
	w.last = now
	return nil
}

// Consume without keys checks the ledger. A full disk still takes an empty transaction, but no mark.
func (w *Watched) Consume(ctx context.Context, keys ...Key) error {
	if err := w.failing.Load(); err != nil && len(keys) == 0 {
		return *err
	}
	return w.consuming(func() error { return w.Identified.Consume(ctx, keys...) })
}

func (w *Watched) Begin(ctx context.Context, r Record, keys ...Key) error {
	return w.consuming(func() error { return w.Identified.Begin(ctx, r, keys...) })
}

func (w *Watched) consuming(do func() error) error {
	if err := w.replaced.Load(); err != nil {
		return err
	}
	defer every.Signal(w.changed)
	return do()
}

func (w *Watched) Finish(ctx context.Context, r Record) error { return w.Write(ctx, []Record{r}, nil) }

func (w *Watched) Add(ctx context.Context, r Record) error { return w.Write(ctx, nil, []Record{r}) }

func (w *Watched) Write(ctx context.Context, outcomes, records []Record, receipts ...Receipt) error {
	defer every.Signal(w.changed)
	return w.Identified.Write(ctx, outcomes, records, receipts...)
}

// Close notes the mark and closes the store.
func (w *Watched) Close() error {
	w.stop()
	<-w.done
	var err error
	select {
	case <-w.changed:
		if w.replaced.Load() == nil {
			err = w.look(context.Background())
		}
	default:
	}
	return errors.Join(err, w.Identified.Close())
}
