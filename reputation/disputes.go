package reputation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/internal/shelf"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/translog"
)

// Disputes configure signals and disputes. Everything without a default is required.
type Disputes struct {
	Rules dispute.Rules
	// Resolution and Key sign as the appraiser. Key signs the log's checkpoints.
	Resolution *signer.Issuer[dispute.Resolution]
	Key        signer.Key
	// Court are the arbiters who decide general disputes. Audience, the node's name, must be in each decision. It is the
	// log's origin, too.
	Court    dispute.Court
	Audience string
	// Operator is the key that states the right time after a wrong clock, or nil.
	Operator *evidence.Root
	// Now is the log's clock, shared by all replicas: a fast one would close windows early. nil means the service's.
	Now func(ctx context.Context) (time.Time, error)
	// Registered returns since when an agent is registered.
	Registered func(ctx context.Context, agent accrual.Agent) (since time.Time, ok bool, err error)
	// TrialTime bounds the judgement of one dispute. Zero means ten minutes.
	TrialTime time.Duration
}

func (d *Disputes) defaults(now func() time.Time) error {
	if d.Registered == nil || d.Resolution == nil || d.Key == nil || d.Rules == (dispute.Rules{}) {
		return errors.New("reputation: the disputes need their rules, signer, key and Registered")
	}
	if d.Now == nil {
		d.Now = func(context.Context) (time.Time, error) { return now(), nil }
	}
	d.TrialTime = cmp.Or(d.TrialTime, 10*time.Minute)
	_, wrong := pinned(d.Court.Roots()) // an arbiter with two names could decide alone
	if d.Operator != nil && wrong == nil {
		_, wrong = pinned([]evidence.Root{*d.Operator})
	}
	_, err := translog.NewKey(d.Audience, make([]byte, 32), nil) // checks the origin
	return cmp.Or(wrong, err)
}

func pinned(roots []evidence.Root) (*evidence.Trust, error) {
	return evidence.NewTrust(roots, evidence.Bundle{}, evidence.SignerPolicy{})
}

// opens opens a token by an offline key: its roots are pinned.
func opens[C any](s *Service, roots []evidence.Root, kind evidence.Kind[C], token string) (o evidence.Opened[C],
	err error) {
	var ids []string
	for _, root := range roots {
		ids = append(ids, root.KeyID)
	}
	trust, err := pinned(roots)
	if err != nil {
		return o, err
	}
	verifier, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: s.o.Now})
	if err != nil {
		return o, err
	}
	return evidence.Open(verifier, kind, token, evidence.Expected{
		Issuers: ids, Audiences: []string{s.o.Disputes.Audience}, KeyIDs: ids, MaxAge: kind.MaxLifetime,
	})
}

type docket struct {
	held   shelf.Lock // for a turn
	clock  clock
	trials trials

	settling sync.Mutex // guards trials

	mu      sync.Mutex // guards all below
	waiting []*call
	signed  ledger.Checkpoint
	signer  string // of signed: its key
}

var errOff = refusal.New("not_configured", "the node takes no signals or disputes")

func (s *Service) openBook(ctx context.Context) (*dispute.Book, error) {
	if s.o.Disputes == nil {
		return nil, errOff
	}
	return dispute.Open(s.o.Store.Look(ctx))
}

// turn is the log of disputes while it belongs to one transaction.
type turn struct {
	*store.Turn
	s     *Service
	now   time.Time
	began time.Time
}

// turnTime bounds what begins in one turn: a slow signer must not hold the log until the database gives up.
const turnTime = 2 * time.Second

func (t *turn) long() bool { return time.Since(t.began) > turnTime }

// call waits for a turn. Its judge reads the log and adds entries. Entries that it added before an error stay.
type call struct {
	judge func(*turn) error
	rows  []string // that judge reads: see [dispute.RowsOf]
	said  error
	done  chan error // gets said, or why nothing is stored
}

const maxCalls = 64

// step judges by the current log and adds to it. Calls that wait at the same time share a transaction. Only what needs
// the log's end belongs in judge, because replicas wait meanwhile; the transaction reads rows at once.
func (s *Service) step(ctx context.Context, judge func(*turn) error, rows ...string) error {
	if s.o.Disputes == nil {
		return errOff
	}
	d, c := s.docket, &call{judge: judge, rows: rows, done: make(chan error, 1)}
	d.mu.Lock()
	d.waiting = append(d.waiting, c)
	d.mu.Unlock()
	for {
		select {
		case err := <-c.done:
			return err
		case d.held <- struct{}{}:
			s.turn(context.WithoutCancel(ctx))
			<-d.held
		case <-ctx.Done():
			if d.leaves(c) {
				return refusal.New("overloaded", "the log of disputes is in use")
			}
			return <-c.done // its turn has begun
		}
	}
}

func (d *docket) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting) > 0
}

func (d *docket) next() (calls []*call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(maxCalls, len(d.waiting))
	calls, d.waiting = d.waiting[:n:n], d.waiting[n:]
	return calls
}

// again lets calls wait for another turn, before the others.
func (d *docket) again(calls []*call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = slices.Concat(calls, d.waiting)
}

func (d *docket) leaves(c *call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.waiting)
	d.waiting = slices.DeleteFunc(d.waiting, func(other *call) bool { return other == c })
	return len(d.waiting) < before
}

func (s *Service) turn(ctx context.Context) {
	d := s.docket
	if !d.waits() {
		return
	}
	var calls []*call
	t := &turn{s: s}
	err := s.o.Store.Turn(ctx, func(of *store.Turn) (err error) {
		t.Turn, t.began = of, time.Now() // it has the log now
		calls = d.next()                 // more have come while it waited for replicas
		var reads []string
		for _, c := range calls {
			reads = append(reads, c.rows...)
		}
		if err := t.Fetch(reads...); err != nil {
			return err
		}
		// In the turn, so that no one waits for it with an old time.
		if t.now, err = d.clock.now(t.Context()); err != nil {
			return err
		}
		for i, c := range calls {
			if i > 0 && t.long() {
				d.again(calls[i:])
				calls = calls[:i]
				break
			}
			c.said = c.judge(t)
			if err := t.Err(); err != nil {
				return err
			}
		}
		failpoint.Reach("step judged")
		return nil
	})
	if t.Turn == nil { // it did not get the log
		calls = d.next()
	} else {
		s.metrics.turns.Add(time.Since(t.began).Seconds())
	}
	if err == nil {
		failpoint.Reach("step made")
		for _, step := range t.Taken() {
			kind, _ := accrual.MemberOf(step.Entry) // its name in the log, but that of a signal says what was done
			s.metrics.steps.WithLabelValues(strings.Replace(kind, "signal", "published", 1)).Inc()
		}
	}
	for _, c := range calls {
		if err != nil {
			c.said = err
		}
		c.done <- c.said
	}
}
