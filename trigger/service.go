package trigger

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/signer"
)

// Defaults of [Options].
const (
	DefaultMaxAge    = 15 * time.Minute
	DefaultBudget    = 1
	DefaultRetention = 30 * 24 * time.Hour
)

// MaxPayload bounds an event's payload, in bytes.
const MaxPayload = 256 << 10

const sweepEvery = time.Minute

// Options configure a [Service]. Those without a default are required.
type Options struct {
	// Path of the event store, an SQLite file in an existing folder. Only one service at a time can open it.
	Path string
	// DSN names a PostgreSQL database in its place, which replicas share.
	DSN string
	// Secret authenticates events in that database, where others may write. Required with DSN.
	Secret string
	// Origin signs origin proofs as the source verifier, Receipt signs receipts as the trigger mediator: two keys and
	// issuers.
	Origin  *signer.Issuer[evidence.TriggerOriginProof]
	Receipt *signer.Issuer[evidence.TriggerReceipt]
	// Sources are the initial sources, with different names. See [Service.SetSources].
	Sources []Source
	// MaxAge bounds an event's validity; DefaultMaxAge if zero.
	MaxAge time.Duration
	// Budget bounds the posts of one action that an event pays for; DefaultBudget if zero.
	Budget int
	// Retention is the time to keep an expired event; DefaultRetention if zero. Single-use keys are kept for ever.
	Retention time.Duration
	Now       func() time.Time
	// Log gets arrivals and refusals, without payloads and signatures.
	Log *zap.Logger
}

func (o *Options) check() error {
	if o.Origin == nil || o.Receipt == nil || o.Now == nil || o.Log == nil {
		return errors.New("trigger: the service lacks one of its signers, its clock or its log")
	}
	if o.MaxAge < 0 || o.Budget < 0 || o.Retention < 0 {
		return errors.New("trigger: a limit is negative")
	}
	o.MaxAge = cmp.Or(o.MaxAge, DefaultMaxAge)
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	return nil
}

// Source supplies events: a [Webhook], a [Schedule] or a [Queue]. Sources are compared by identity.
type Source interface {
	Name() string
	// Run supplies events until ctx ends. Its error ends the service.
	Run(ctx context.Context, s *Service) error
}

// Service keeps events and signs for them. It is safe for concurrent use.
type Service struct {
	o         Options
	strangers *zap.Logger // that strangers can cause
	store     store
	from      atomic.Pointer[sources]

	ending chan struct{} // closed when Run or the service ends, so that claims stop waiting
	end    func()

	mu      sync.Mutex    // guards arrived
	arrived chan struct{} // closed and replaced when an event comes
}

// New opens the store. It runs no source: see [Service.Run].
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
	if s.store, err = openStore(ctx, o.Path, o.DSN, o.Secret); err != nil {
		return nil, err
	}
	return s, nil
}

// Run runs the sources and removes old events until ctx ends or a source fails. Then all claims stop waiting.
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
		s.store.db.Listen(ctx, arrivals, s.wake, func(err error) {
			s.o.Log.Warn("events of other replicas are not heard", zap.Error(err))
		})
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

func (s *Service) sweep(ctx context.Context) {
	now := s.o.Now()
	if err := s.store.sweep(ctx, now, now.Add(-s.o.Retention)); err != nil && ctx.Err() == nil {
		s.o.Log.Error("old events were not swept", zap.Error(err))
	}
}

// Ready returns nil, or why nothing can be stored now. It counts itself, because an empty transaction needs no room on a
// full disk.
func (s *Service) Ready(ctx context.Context) error {
	return s.store.db.Write(ctx, writing, func(tx db.Tx) error {
		_, err := tx.Exec(countUse, "", "")
		return err
	})
}

func (s *Service) Close() error {
	s.end()
	return s.store.db.Close()
}

// add stores an arrival and wakes waiting claims. fresh is false if a single-use key is known; id is then the event
// that used it, or "" if that delivery was ignored.
func (s *Service) add(ctx context.Context, a arrival) (id string, fresh bool, err error) {
	e, err := a.event(s.o.Now(), s.o.MaxAge)
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

func (s *Service) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// Get returns one event; the code is not_found if the store has none.
func (s *Service) Get(ctx context.Context, id string) (Event, error) {
	return s.store.get(ctx, id, s.o.Now())
}

// List returns at most limit of the newest events, without payloads.
func (s *Service) List(ctx context.Context, limit int) ([]Event, error) {
	return s.store.list(ctx, max(0, limit), s.o.Now())
}
