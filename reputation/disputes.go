package reputation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
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
	// Now is the log's clock, shared by all replicas: a fast clock would close windows early for all. nil means the
	// service's own clock.
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
	_, err := translog.NewKey(d.Audience, make([]byte, 32), nil) // checks the origin
	return err
}

// verifier returns one that believes offline keys, or nil without any.
func verifier(roots []evidence.Root, now func() time.Time) (*evidence.Verifier, error) {
	if len(roots) == 0 {
		return nil, nil
	}
	trust, err := evidence.NewTrust(roots, evidence.Bundle{}, evidence.SignerPolicy{})
	if err != nil {
		return nil, err
	}
	return evidence.NewVerifier(trust, evidence.VerifierOptions{Now: now})
}

type docket struct {
	held   lock          // for what follows
	book   *dispute.Book // durable entries only
	clock  *clock
	trials *trials
	signed ledger.Checkpoint
	signer string // of signed: its key
}

func newDocket(d *Disputes, own func() time.Time) *docket {
	n := &docket{held: make(lock, 1), book: dispute.NewBook(), trials: newTrials()}
	if d != nil {
		n.clock = &clock{read: d.Now, own: own}
	}
	return n
}

var errOff = refusal.New("not_configured", "the node takes no signals or disputes")

// openBook returns the complete log, locked until release is called.
func (s *Service) openBook(ctx context.Context) (book *dispute.Book, release func(), err error) {
	if s.o.Disputes == nil {
		return nil, nil, errOff
	}
	release, ok := s.docket.held.take(ctx)
	if !ok {
		return nil, nil, refusal.New("overloaded", "the log of disputes is in use")
	}
	if err = s.catchUpDocket(ctx); err != nil {
		release()
		return nil, nil, fmt.Errorf("the log of disputes: %w", err)
	}
	return s.docket.book, release, nil
}

func (s *Service) catchUpDocket(ctx context.Context) error {
	book := s.docket.book
	for more := true; more; {
		steps, err := s.o.Store.Steps(ctx, book.Log().Entries+1, store.MaxEntries)
		if err != nil {
			return err
		}
		for _, one := range steps {
			next, err := book.Read([]byte(one.Text))
			if err != nil {
				return fmt.Errorf("entry %d: %w", one.Number, err)
			}
			// Finds gaps and changed entries, not a log that was written anew.
			if next.Log != (accrual.Log{Entries: one.Number, Head: one.Head}) {
				return fmt.Errorf("entry %d is missing or was changed: the log has been altered", one.Number)
			}
			if err := book.Take(next); err != nil {
				return err
			}
		}
		more = len(steps) == store.MaxEntries
	}
	return nil
}

// stepTries bounds how often a step is repeated because a replica was faster.
const stepTries = 64

// step judges by the current log and adds to it, again if a replica was faster.
func (s *Service) step(ctx context.Context, judge func(book *dispute.Book, now time.Time) error) error {
	if s.o.Disputes == nil {
		return errOff
	}
	var last error
	for range stepTries {
		book, release, err := s.openBook(ctx)
		if err != nil {
			return err
		}
		// Under the lock, so that no one waits for it with an old time.
		now, err := s.docket.clock.now(ctx)
		if err == nil {
			err = judge(book, now)
		}
		last = err
		release()
		if !errors.Is(last, store.ErrMoved) {
			return last
		}
	}
	return refusal.New("overloaded", "too many replicas add to the log of disputes: %w", last)
}

func (s *Service) proceed(ctx context.Context, book *dispute.Book, e dispute.Entry, one store.Step) error {
	next, err := book.Next(e)
	if err != nil {
		return err
	}
	return s.advance(ctx, book, next, one)
}

// advance stores a step together with its entries in agents' logs and what one has set. After an error the book is
// unchanged.
func (s *Service) advance(ctx context.Context, book *dispute.Book, next dispute.Step, one store.Step) error {
	one.Number, one.Head, one.Text = next.Log.Entries, next.Log.Head, string(next.Text)
	accounts, release, err := s.accountsOf(ctx, next.Accounts)
	if err != nil {
		return err
	}
	defer release()
	// After a failure some accounts have entries that are not stored.
	forget := func(err error) error {
		for _, a := range accounts {
			a.log = nil
		}
		return err
	}
	for _, a := range next.Accounts {
		entry, err := accounts[a.Agent.String()].goOn(a.Entry)
		if err != nil || entry == nil {
			// The account was read later than the log of disputes: a replica was faster.
			return forget(errors.Join(fmt.Errorf("%w: the log of %s", store.ErrMoved, a.Agent), err))
		}
		one.Entries = append(one.Entries, *entry)
	}
	failpoint.Reach("step judged")
	if err := s.o.Store.Proceed(ctx, one); err != nil {
		return forget(err)
	}
	failpoint.Reach("step made")
	s.metrics.steps.WithLabelValues(stepOf(next.Entry)).Inc()
	return book.Take(next)
}

// accountsOf returns agents' logs by id, locked until release is called, in the order of ids to avoid deadlocks.
func (s *Service) accountsOf(ctx context.Context, of []dispute.Account) (accounts map[string]*account, release func(),
	err error) {
	accounts = make(map[string]*account)
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	agents := make([]accrual.Agent, 0, len(of))
	for _, a := range of {
		agents = append(agents, a.Agent)
	}
	slices.SortFunc(agents, func(a, b accrual.Agent) int { return cmp.Compare(a.String(), b.String()) })
	for _, agent := range slices.Compact(agents) {
		a, done, err := s.account(ctx, agent)
		if err != nil {
			release()
			return nil, nil, err
		}
		accounts[agent.String()], held = a, append(held, done)
	}
	return accounts, release, nil
}

func stepOf(e dispute.Entry) string {
	switch {
	case e.Signal != nil:
		return "published"
	case e.Final != nil:
		return "final"
	case e.Opened != nil:
		return "opened"
	case e.Reviewing != nil:
		return "reviewing"
	case e.Voted != nil:
		return "voted"
	case e.Appealed != nil:
		return "appealed"
	case e.Resolved != nil:
		return "resolved"
	case e.SetBack != nil:
		return "set_back"
	}
	return "violation"
}
