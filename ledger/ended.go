package ledger

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// maxEnded bounds the summaries that wait for slow followers, in bytes.
const maxEnded = 8 << 20

// Ended passes summaries of ended calls on to those who follow them. It keeps what some follower has not read yet. The
// zero value is ready, and safe for concurrent use.
type Ended struct {
	mu        sync.Mutex // guards all below
	followers map[*Follower]bool
	calls     []Summary     // oldest first; the slices that Next returns share it
	first     int           // the number of calls[0]
	size      int           // of calls, in bytes
	more      chan struct{} // closed with the next call; nil if no follower waits
}

// Summary is the record of a call without its evidence, as JSON and as the fields that select it.
type Summary struct {
	State         State
	Session, Flow string
	Started       time.Time
	JSON          []byte
}

// Follower reads the calls that end after [Ended.Follow]. Only one goroutine may use it.
type Follower struct {
	of   *Ended
	next int // the number of the first call that it has not read
}

// add passes on a call that has ended.
func (e *Ended) add(r Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.followers) == 0 {
		return
	}
	r.Artifacts, r.Checks, r.Steps, r.Tools, r.Answer = nil, nil, nil, nil, nil
	raw, err := json.Marshal(r)
	if err != nil {
		return // not to be expected: the ledger has stored it as JSON
	}
	e.calls = append(e.calls, Summary{r.State, r.Session, r.Flow, r.Started, raw})
	for e.size += len(raw); e.size > maxEnded; {
		e.dropTo(e.first + 1)
	}
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// dropTo drops the calls before a number. The caller holds e.mu.
func (e *Ended) dropTo(number int) {
	for ; e.first < number; e.first++ {
		e.size -= len(e.calls[0].JSON)
		e.calls = e.calls[1:]
	}
	if len(e.calls) == 0 {
		e.calls = nil
	}
}

// dropRead drops the calls that all followers have read. The caller holds e.mu.
func (e *Ended) dropRead() {
	read := e.first + len(e.calls)
	for f := range e.followers {
		read = min(read, f.next)
	}
	e.dropTo(read)
}

// Follow returns a follower, which has to be closed.
func (e *Ended) Follow() *Follower {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.followers == nil {
		e.followers = make(map[*Follower]bool)
	}
	f := &Follower{e, e.first + len(e.calls)}
	e.followers[f] = true
	return f
}

// Close ends the following.
func (f *Follower) Close() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	delete(f.of.followers, f)
	f.of.dropRead()
}

// Next waits for the next calls, in the order in which their ends were stored. missed says how many before them are no
// longer kept, because the follower is too slow.
func (f *Follower) Next(ctx context.Context) (calls []Summary, missed int, err error) {
	for {
		var more <-chan struct{}
		if calls, missed, more = f.take(); more == nil {
			return calls, missed, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// take takes what there is. If that is nothing, more is a channel that is closed when there is.
func (f *Follower) take() (calls []Summary, missed int, more <-chan struct{}) {
	e := f.of
	e.mu.Lock()
	defer e.mu.Unlock()
	missed = max(0, e.first-f.next)
	calls = e.calls[f.next+missed-e.first:]
	if len(calls) == 0 {
		if e.more == nil {
			e.more = make(chan struct{})
		}
		return nil, 0, e.more
	}
	f.next = e.first + len(e.calls)
	e.dropRead()
	return calls, missed, nil
}
