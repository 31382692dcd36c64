package trigger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/signer"
)

// Defaults of [Options].
const (
	DefaultMaxAge     = 15 * time.Minute
	DefaultBudget     = 1
	DefaultMaxPayload = 256 << 10
	DefaultRetention  = 30 * 24 * time.Hour
)

// Forever is a retention that has no end.
const Forever = time.Duration(math.MaxInt64)

// maxMaxPayload bounds MaxPayload: as a JSON string a payload can be six times as long, and an answer must hold it.
const maxMaxPayload = 512 << 10

// sweepEvery is how often old events are swept.
const sweepEvery = time.Minute

// Options configure a [Service]. Everything without a default is required.
type Options struct {
	// Path of the event store, an SQLite file; its folder must exist. One service at a time has it open.
	Path string
	// Origin signs origin proofs as the source verifier, Receipt signs receipts as the trigger mediator: two keys, two
	// issuers.
	Origin  *signer.Issuer[evidence.TriggerOriginProof]
	Receipt *signer.Issuer[evidence.TriggerReceipt]
	// Sources are where events come from, at first; each has a name of its own. See [Service.SetSources].
	Sources []Source
	// MaxAge is how long an event is good for after its arrival; zero means DefaultMaxAge.
	MaxAge time.Duration
	// Budget is how many posts of one action an event pays for; zero means DefaultBudget.
	Budget int
	// MaxPayload bounds an event's payload, in bytes; zero means DefaultMaxPayload. At most 512 KiB.
	MaxPayload int
	// Retention is how long an event is kept to be seen after it has expired, and a queue's message after it was taken or
	// refused; zero means DefaultRetention. What was good for one event stays known for ever.
	Retention time.Duration
	// Now is the clock.
	Now func() time.Time
	// Log gets what came in and what was refused, without payloads and signatures.
	Log *zap.Logger
}

// check sets the defaults.
func (o *Options) check() error {
	if o.Origin == nil || o.Receipt == nil || o.Now == nil || o.Log == nil {
		return errors.New("trigger: the service lacks one of its signers, its clock or its log")
	}
	if o.MaxAge < 0 || o.Budget < 0 || o.MaxPayload < 0 || o.MaxPayload > maxMaxPayload || o.Retention < 0 {
		return fmt.Errorf("trigger: a negative limit, or a payload bound over %d bytes", maxMaxPayload)
	}
	o.MaxAge = cmp.Or(o.MaxAge, DefaultMaxAge)
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	o.MaxPayload = cmp.Or(o.MaxPayload, DefaultMaxPayload)
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	return nil
}

// Source is where events come from: a [Webhook], a [Schedule] or a [Queue]. It is compared by identity.
type Source interface {
	// Name is the source's name, in events and artifacts.
	Name() string
	// Run brings events in until ctx ends, for a source that does so by itself. An error of it ends the service.
	Run(ctx context.Context, s *Service) error
}

// Service keeps events and signs for them. It is safe for concurrent use.
type Service struct {
	o         Options
	strangers *zap.Logger // for lines that somebody without a signature can cause
	store     store
	from      atomic.Pointer[sources]

	ending chan struct{} // closed when Run or the service ends: nobody waits for an event any longer
	end    func()

	mu      sync.Mutex    // guards arrived
	arrived chan struct{} // closed and replaced when an event comes in
}

// New opens the event store.
func New(ctx context.Context, o Options) (*Service, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Service{o: o, strangers: flood.Logger(o.Log), ending: make(chan struct{}), arrived: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.ending) })
	from, err := newSources(o.Sources)
	if err != nil {
		return nil, err
	}
	s.from.Store(from)
	if s.store, err = openStore(ctx, o.Path); err != nil {
		return nil, err
	}
	return s, nil
}

// Run brings events in from every source and sweeps old ones, until ctx ends or a source fails. It returns when all of
// that has ended. Whoever waits in [Service.Claim] is sent away then.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		s.end()
		return nil
	})
	group.Go(func() error {
		s.runSources(ctx, group)
		return nil
	})
	group.Go(func() error {
		s.sweep(ctx)
		for range every.Tick(ctx, sweepEvery) {
			s.sweep(ctx)
		}
		return nil
	})
	return group.Wait()
}

// sweep expires and forgets old events.
func (s *Service) sweep(ctx context.Context) {
	now := s.o.Now()
	if err := s.store.sweep(ctx, now, now.Add(-s.o.Retention)); err != nil && ctx.Err() == nil {
		s.o.Log.Error("old events were not swept", zap.Error(err))
	}
}

// Ready says why nothing could be made durable now.
func (s *Service) Ready(ctx context.Context) error {
	return s.store.write(ctx, func(*sql.Tx) error { return nil })
}

// Close closes the event store.
func (s *Service) Close() error {
	s.end()
	return s.store.db.Close()
}

// add keeps what a source has brought in, and wakes whoever waits for an event. Where one of its single-use keys is
// known, it gives the first event's id (empty where it was of no interest then), and fresh is false.
func (s *Service) add(ctx context.Context, a arrival) (id string, fresh bool, err error) {
	e, err := a.event(s.o.Now(), s.o.MaxAge, s.o.MaxPayload)
	if err != nil {
		return "", false, err
	}
	known, fresh, err := s.store.add(ctx, e, a.payload, a.singleUse())
	if err != nil {
		return "", false, err
	}
	if !fresh {
		s.strangers.Info("known already", zap.String("event", known), zap.String("source", e.Source),
			zap.String("evidence", e.EvidenceID))
		return known, false, nil
	}
	s.o.Log.Info("event kept", zap.String("event", e.ID), zap.String("kind", e.Kind), zap.String("source", e.Source),
		zap.String("method", e.Method), zap.String("evidence", e.EvidenceID))
	s.wake()
	return e.ID, true, nil
}

// wake wakes whoever waits for an event.
func (s *Service) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// Get returns one event, or not_found.
func (s *Service) Get(ctx context.Context, id string) (Event, error) {
	return s.store.get(ctx, id, s.o.Now())
}

// List returns the newest events, at most limit of them, without their payloads.
func (s *Service) List(ctx context.Context, limit int) ([]Event, error) {
	return s.store.list(ctx, max(0, limit), s.o.Now())
}
