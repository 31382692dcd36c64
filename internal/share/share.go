// Package share divides a bounded amount among parties, such as the sessions of agents, so that no party can keep the
// others from theirs.
package share

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Pool counts what parties hold of one bounded amount, such as calls in flight or bytes of memory. A party may hold
// as much as it leaves free: one party alone gets half of the amount, n parties that take all they can get 1/(n+1)
// each, and a part is left for the next one. Of an odd amount the party gets the larger half, and so all of one. The
// zero value is ready to use, and safe for concurrent use.
type Pool struct {
	mu    sync.Mutex // guards all below
	taken int64
	by    map[string]int64
}

// Take takes n for a party, of an amount that may change from call to call. It reports false, and takes nothing, if
// the party would then hold more than it leaves free.
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

// Give gives back n of what a party holds.
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

// Turns admits a number of parties at once, each with one piece of work. A party that wants several turns queues behind
// itself, so another party waits for one turn of each party and not for all that they want. It is safe for concurrent
// use.
type Turns struct {
	all *semaphore.Weighted

	mu  sync.Mutex // guards own
	own map[string]*line
}

// line is where the turns of one party queue.
type line struct {
	turn  *semaphore.Weighted
	users int
}

// NewTurns makes the turns of n parties at once.
func NewTurns(n int) *Turns {
	return &Turns{all: semaphore.NewWeighted(int64(n)), own: make(map[string]*line)}
}

// Wait waits for a turn of a party. The caller calls done when its work is over.
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
		own = &line{turn: semaphore.NewWeighted(1)}
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
