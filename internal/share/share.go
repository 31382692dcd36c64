// Package share divides a bounded amount among parties, such as agents' sessions, so that none can keep the others from
// theirs.
package share

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Pool counts each party's part of one amount, such as calls in flight or bytes of memory. A party may hold as much as
// it leaves free: one party alone gets half, n greedy parties get 1/(n+1) each, and one part stays free for the next.
// Of an odd amount the party gets the larger half, and so all of one. The zero value is ready to use. It is safe for
// concurrent use.
type Pool struct {
	mu    sync.Mutex // guards all below
	taken int64
	by    map[string]int64
}

// Take takes n for a party. amount may change from call to call. It reports false, and takes nothing, if the party
// would hold more than it leaves free.
func (p *Pool) Take(party string, n, amount int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held, free := p.by[party]+n, amount-p.taken-n; held > free+1 || free < 0 {
		return false
	}
	if p.by == nil {
		p.by = make(map[string]int64)
	}
	p.taken += n
	p.by[party] += n
	return true
}

// Give returns n of a party's part.
func (p *Pool) Give(party string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	if left := p.by[party] - n; left > 0 {
		p.by[party] = left
	} else {
		delete(p.by, party)
	}
}

// Taken returns what all parties hold.
func (p *Pool) Taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Turns admits a number of pieces of work at once, few of each party. A party queues behind itself, so another waits
// for a few turns of each party, not for all its turns. It is safe for concurrent use.
type Turns struct {
	all  *semaphore.Weighted
	each int64

	mu  sync.Mutex // guards own
	own map[string]*line
}

// line is one party's queue.
type line struct {
	turn  *semaphore.Weighted
	users int
}

// NewTurns admits n pieces of work at once, and of one party each of them.
func NewTurns(n, each int) *Turns {
	return &Turns{all: semaphore.NewWeighted(int64(n)), each: int64(each), own: make(map[string]*line)}
}

// Wait waits for a party's turn. The caller calls done after its work.
func (t *Turns) Wait(ctx context.Context, party string) (done func(), err error) {
	own := t.join(party)
	if err := own.turn.Acquire(ctx, 1); err != nil {
		t.leave(party, own)
		return nil, err
	}
	leave := func() { own.turn.Release(1); t.leave(party, own) }
	if err := t.all.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err
	}
	return func() { t.all.Release(1); leave() }, nil
}

func (t *Turns) join(party string) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.own[party]
	if own == nil {
		own = &line{turn: semaphore.NewWeighted(t.each)}
		t.own[party] = own
	}
	own.users++
	return own
}

func (t *Turns) leave(party string, own *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.own, party)
	}
}
