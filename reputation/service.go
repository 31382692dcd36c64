// Package reputation is the node: it takes the interaction receipts of sidecars, issues challenges to their agents,
// scores sessions, and judges disputes. In terms of RFC 9334, sidecars give evidence, and the node gives attestation
// results.
//
//	service.go    the service, its options and the trusted owners
//	receive.go    incoming receipts; publish.go signals; file.go disputes; statements.go callers and authors
//	sessions.go   the sessions in memory; accounts.go the agents' logs and reputations; internal/shelf how both are kept
//	disputes.go   the log of signals and disputes; clock.go its time; log.go the log for readers
//	settle.go     the end of windows and disputes; arbitrate.go decisions of arbiters; trials.go the others' trials
package reputation

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/internal/limit"
	"github.com/actionproof/mediator/reputation/internal/shelf"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/signer"
)

const DefaultRetention = 90 * 24 * time.Hour

// Limits bound what one owner can use. Zero means the default. Bursts are ten times the average.
type Limits struct {
	Sessions   int64 // kept; 100,000
	Receipts   int64 // kept; 2,000,000
	Challenges int64 // kept; 200,000
	Rate       int   // receipts per second; 200
	Calls      int   // requests of agents per second; 20
	Cached     int   // receipts of usual size in memory, of all owners; 200,000
}

// Options configure a [Service]. Everything without a default is required.
type Options struct {
	// Store keeps the state. The service does not close it.
	Store *store.Store
	// Believed are the initially trusted owners and hosts. See [Service.Believe].
	Believed Believed
	// Score and Reputation sign as the appraiser.
	Score      *signer.Issuer[autonomy.Claims]
	Reputation *signer.Issuer[accrual.Claims]
	// Verified returns the last verification that an agent passed, even if expired, or nil. It may be nil itself.
	Verified func(context.Context, accrual.Agent) (*accrual.Verified, error)
	// Disputes configure signals and disputes; nil takes none.
	Disputes *Disputes
	// Retention is the time for which a session is kept after its last receipt; zero means DefaultRetention.
	Retention time.Duration
	Limits    Limits
	Now       func() time.Time
	// Log gets refusals and background work.
	Log *zap.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

// Believed is what a service trusts. It is replaced as a whole when the configuration or a trust bundle changes.
type Believed struct {
	Owners []Owner
	// Hosts are the trusted model hosts, with ports. Other hosts count only for coverage: an owner could run them itself.
	Hosts []string
}

// Owner is an owner whose sidecars deliver receipts.
type Owner struct {
	// ID is the thumbprint of the owner's key registry: see [interaction.Owner].
	ID string
	// Name is for the log.
	Name string
	// Past judges receipts as of the time of their signature, so that keys can rotate while a sidecar is away.
	Past *evidence.PastTrust
	// Live judges caller tokens by today's certificates.
	Live *evidence.Verifier
	// Receipts and Callers are the expectations for receipts and caller tokens.
	Receipts, Callers evidence.Expected
	// Statements are the expectations for statements; nil if the owner's agents publish nothing.
	Statements *evidence.Expected

	// generation changes whenever the owner's receipts must be judged again.
	generation uint64
	rates      *rates
}

type rates struct{ receipts, calls *rate.Limiter }

type believed struct {
	owners     map[string]*Owner
	hosts      []string
	generation uint64 // the latest
}

// knows reports whether receipts of o are judged as before.
func (b *believed) knows(o *Owner, hosts []string) bool {
	had := b.owners[o.ID]
	return had != nil && had.Past == o.Past && reflect.DeepEqual(had.Receipts, o.Receipts) && slices.Equal(b.hosts, hosts)
}

// Service is the node. It is safe for concurrent use.
type Service struct {
	o         Options
	strangers *zap.Logger // for lines that strangers can cause
	believed  atomic.Pointer[believed]
	sessions  *shelf.Shelf[sessionKey, reading]    // weighed in receipts of usual size
	accounts  *shelf.Shelf[accrual.Agent, account] // weighed in bytes
	docket    *docket
	metrics   *metrics
	reads     shelf.Lock // for reading a session, which costs CPU time for verification

	believing sync.Mutex // held during Believe
}

// New makes a service.
func New(o Options) (*Service, error) {
	if o.Store == nil || o.Score == nil || o.Reputation == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("reputation: the service needs a store, two signers, a clock and a log")
	}
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	l := &o.Limits
	l.Sessions, l.Receipts = cmp.Or(l.Sessions, 100_000), cmp.Or(l.Receipts, 2_000_000)
	l.Challenges, l.Cached = cmp.Or(l.Challenges, 200_000), cmp.Or(l.Cached, 200_000)
	l.Rate, l.Calls = cmp.Or(l.Rate, 200), cmp.Or(l.Calls, 20)
	if min(l.Sessions, l.Receipts, l.Challenges) < 0 || min(l.Rate, l.Calls, l.Cached) < 0 || o.Retention < 0 {
		return nil, errors.New("reputation: a limit is negative")
	}
	if o.Disputes != nil {
		with := *o.Disputes
		if err := with.defaults(o.Now); err != nil {
			return nil, err
		}
		o.Disputes = &with
	}
	s := &Service{
		o: o, strangers: flood.Logger(o.Log),
		sessions: shelf.New[sessionKey, reading](o.Limits.Cached), accounts: shelf.New[accrual.Agent, account](maxAccounts),
		docket: &docket{held: make(shelf.Lock, 1),
			trials: trials{open: make(map[string]*attempt), turns: make(map[string]int64)}},
		reads: make(shelf.Lock, maxReads),
	}
	s.metrics = newMetrics(o.Metrics, s.sessions)
	if o.Disputes != nil {
		s.docket.clock.read, s.docket.clock.own = o.Disputes.Now, o.Now
	}
	s.metrics.upToDate.Set(float64(o.Now().Unix()))
	return s, s.Believe(o.Believed)
}

// Believe replaces what the service trusts, for all later requests. After an error nothing has changed.
func (s *Service) Believe(b Believed) error {
	next := &believed{owners: make(map[string]*Owner, len(b.Owners)), hosts: b.Hosts}
	for _, o := range b.Owners {
		switch {
		case o.ID == "" || o.Past == nil || o.Live == nil:
			return errors.New("reputation: an owner lacks its id or its trust")
		case next.owners[o.ID] != nil:
			return errors.New("reputation: an owner is named twice")
		}
		next.owners[o.ID] = &o
	}
	s.believing.Lock()
	defer s.believing.Unlock()
	last := cmp.Or(s.believed.Load(), new(believed))
	next.generation = last.generation + 1
	for id, o := range next.owners {
		// An owner with a changing bundle must not cause the other owners' sessions to be read again.
		if o.generation = next.generation; last.knows(o, next.hosts) {
			o.generation = last.owners[id].generation
		}
		if had := last.owners[id]; had != nil {
			o.rates = had.rates
			continue
		}
		l := s.o.Limits
		o.rates = &rates{
			receipts: rate.NewLimiter(rate.Limit(l.Rate), max(10*l.Rate, MaxBatch)),
			calls:    rate.NewLimiter(rate.Limit(l.Calls), 10*l.Calls),
		}
	}
	s.believed.Store(next)
	return nil
}

func (b *believed) owner(id string) (*Owner, error) {
	if o := b.owners[id]; o != nil {
		return o, nil
	}
	return nil, refusal.New("owner_unknown", "the node knows no owner %.43q", id)
}

func (s *Service) admit(l *rate.Limiter, n int, what string) error {
	return limit.Take(l, s.o.Now(), n,
		refusal.New("rate_limited", "the owner exceeds %g %s per second", float64(l.Limit()), what))
}

const (
	maxReads    = 2 // sessions at once
	settleEvery = 5 * time.Second
	closedEvery = time.Minute
	pruneEvery  = time.Hour
	// keptTokens keeps used caller tokens longer, in case the clock is set back.
	keptTokens = time.Hour
)

// Run enters closed sessions, makes baselines, settles disputes and prunes, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var pruned time.Time
	work := func() {
		if err := s.Enter(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("some closed sessions were not entered in the logs of their agents", zap.Error(err))
		}
		if err := s.Baselines(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("the baselines were not made", zap.Error(err))
		}
		if now := s.o.Now(); now.Sub(pruned) >= pruneEvery {
			old := store.Old{Sessions: now.Add(-s.o.Retention), Tokens: now.Add(-keptTokens), Samples: maxSamples}
			if err := s.o.Store.Prune(ctx, old); err != nil && ctx.Err() == nil {
				s.o.Log.Error("old state was not removed", zap.Error(err))
			}
			pruned = now
		}
	}
	var settled sync.WaitGroup
	settled.Go(func() {
		for range every.Tick(ctx, settleEvery) {
			if err := s.Settle(ctx); err != nil && ctx.Err() == nil {
				s.o.Log.Error("some disputes were not settled", zap.Error(err))
			}
		}
	})
	defer settled.Wait()
	work()
	for range every.Tick(ctx, closedEvery) {
		work()
	}
	return nil
}
