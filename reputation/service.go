// Package reputation is the node: it takes the interaction receipts of sidecars, issues challenges to their agents, and appraises what
// the receipts show. In the words of RFC 9334, sidecars give evidence, and the node attestation results; what follows from them is the
// business of a policy.
//
// # Where things are
//
//	service.go   Service: what it is given, whom it believes, and what it does by itself
//	receive.go   receipts come in
//	caller.go    which agent makes a request
//	challenge.go challenges: issued, committed to, revealed
//	probes.go    the questions that come with a challenge
//	score.go     the score of a session
//	sessions.go  the sessions that were read last
//	baseline.go  samples and baselines
//	accounts.go  the logs of agents, and the reputations that follow from them
//	statements.go who has written a document
//	disputes.go  the log of signals and disputes, and how it goes on
//	publish.go   signals come in
//	file.go      disputes come in
//	settle.go    windows end, and disputes are resolved
//	trials.go    when disputes are judged, and by what
//	metrics.go   what it counts
package reputation

import (
	"cmp"
	"context"
	"errors"
	"maps"
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
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/signer"
)

// Defaults of [Limits] and [Options].
const (
	DefaultSessions   = 100_000
	DefaultReceipts   = 2_000_000
	DefaultChallenges = 200_000
	DefaultRate       = 200
	DefaultCalls      = 20
	DefaultCached     = 200_000
	DefaultProbePairs = 5
	DefaultRetention  = 90 * 24 * time.Hour
)

// Limits bound what one owner can make the node do and keep. Zero values mean the defaults.
type Limits struct {
	Sessions   int64 // that are kept of one owner
	Receipts   int64 // that are kept of one owner
	Challenges int64 // that are kept of one owner
	Rate       int   // receipts that one owner can deliver in a second, on the average; ten times as many at once
	Calls      int   // requests that the agents of one owner can make in a second, on the average; ten times as many at once
	Cached     int   // receipts of a usual size, of all sessions that are kept in memory
}

// Options configure a [Service]. Everything without a default is required.
type Options struct {
	// Store keeps the state. The service does not close it.
	Store *store.Store
	// Believed is whom the service believes at first. See [Service.Believe].
	Believed Believed
	// Score signs the scores, as the appraiser.
	Score *signer.Issuer[autonomy.Claims]
	// Reputation signs the reputations of agents, as the appraiser.
	Reputation *signer.Issuer[accrual.Claims]
	// Verified returns the last verification that an agent has passed, or nil; also if it is over. Left out, no agent has passed any.
	Verified func(context.Context, accrual.Agent) (*accrual.Verified, error)
	// Disputes are the signals and disputes that it takes; nil takes none.
	Disputes *Disputes
	// ProbePairs is how many pairs of probes come with a challenge: zero means DefaultProbePairs, a negative number none.
	ProbePairs int
	// Retention is how long a session is kept after its last receipt; zero means DefaultRetention.
	Retention time.Duration
	Limits    Limits
	// Now is the clock.
	Now func() time.Time
	// Log gets what was refused, and what the service does by itself.
	Log *zap.Logger
	// Metrics gets what the service counts; it may be nil.
	Metrics prometheus.Registerer
}

// Believed is whom a service believes. It is replaced as a whole, when a configuration or a trust bundle has changed.
type Believed struct {
	Owners []Owner
	// Hosts are the hosts of models, with their ports, whose answers count. Calls to others count for nothing but coverage: their owner
	// could have written the answers himself.
	Hosts []string
}

// Owner is one whose sidecars deliver receipts.
type Owner struct {
	// ID is the thumbprint of the owner's key registry, as receipts have it: see [interaction.Owner].
	ID string
	// Name is for the log alone.
	Name string
	// Past judges receipts as of the time of their signature, so that a sidecar can be away while its keys rotate.
	Past *evidence.PastTrust
	// Live judges caller tokens, by the certificates of this moment.
	Live *evidence.Verifier
	// Receipts is what receipts have to be, and Callers what caller tokens have to be: the audience of these is the node's.
	Receipts, Callers evidence.Expected
	// Statements is what the statements of the owner's agents have to be; nil where they publish nothing.
	Statements *evidence.Expected

	// generation is another one whenever what counts of the owner's receipts may have changed.
	generation uint64
}

// believed is a [Believed] in use.
type believed struct {
	owners     map[string]*Owner
	hosts      []string
	generation uint64 // the last one
}

// knows reports whether the receipts of an owner are judged as they would be for o and hosts.
func (b *believed) knows(o *Owner, hosts []string) bool {
	had := b.owners[o.ID]
	return had != nil && had.Past == o.Past && reflect.DeepEqual(had.Receipts, o.Receipts) && slices.Equal(b.hosts, hosts)
}

// Service is the node. It is safe for concurrent use.
type Service struct {
	o         Options
	strangers *zap.Logger // for lines that others can cause
	bank      bank
	believed  atomic.Pointer[believed]
	sessions  *sessions
	accounts  *accounts
	docket    *docket
	arbiter   *evidence.Verifier // of the arbiter's decisions; nil where there is none
	metrics   *metrics
	reads     chan struct{} // one value for each session that is being read: reading verifies, which takes a processor

	mu    sync.Mutex        // guards rates
	rates map[string]*rates // by owner; only of those that were believed
}

// rates are how fast one owner's sidecars and agents go.
type rates struct{ receipts, calls *rate.Limiter }

// New makes a service.
func New(o Options) (*Service, error) {
	if o.Store == nil || o.Score == nil || o.Reputation == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("reputation: the service lacks its store, a signer, its clock or its log")
	}
	o.Limits.Sessions, o.Limits.Receipts = cmp.Or(o.Limits.Sessions, DefaultSessions), cmp.Or(o.Limits.Receipts, DefaultReceipts)
	o.Limits.Challenges, o.Limits.Cached = cmp.Or(o.Limits.Challenges, DefaultChallenges), cmp.Or(o.Limits.Cached, DefaultCached)
	o.Limits.Rate, o.Limits.Calls = cmp.Or(o.Limits.Rate, DefaultRate), cmp.Or(o.Limits.Calls, DefaultCalls)
	o.ProbePairs, o.Retention = max(0, cmp.Or(o.ProbePairs, DefaultProbePairs)), cmp.Or(o.Retention, DefaultRetention)
	l := o.Limits
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
	bank, err := readBank()
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, strangers: flood.Logger(o.Log), bank: bank, sessions: newSessions(o.Limits.Cached), accounts: newAccounts(), docket: newDocket(), reads: make(chan struct{}, maxReads), rates: make(map[string]*rates)}
	if s.metrics, err = newMetrics(o.Metrics, s.sessions); err != nil {
		return nil, err
	}
	if s.arbiter, err = o.Disputes.verifier(o.Now); err != nil {
		return nil, err
	}
	s.metrics.upToDate.Set(float64(o.Now().Unix()))
	return s, s.Believe(o.Believed)
}

// Believe replaces whom the service believes, for every request that starts afterwards. After an error nothing has changed.
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
	s.mu.Lock()
	defer s.mu.Unlock()
	last := cmp.Or(s.believed.Load(), new(believed))
	next.generation = last.generation + 1
	for id, o := range next.owners {
		// An owner whose bundle changes all the time must not have the sessions of the others read anew.
		if o.generation = next.generation; last.knows(o, next.hosts) {
			o.generation = last.owners[id].generation
		}
	}
	maps.DeleteFunc(s.rates, func(id string, _ *rates) bool { return next.owners[id] == nil })
	s.believed.Store(next)
	return nil
}

// owner returns an owner that is believed, or owner_unknown.
func (b *believed) owner(id string) (*Owner, error) {
	if o := b.owners[id]; o != nil {
		return o, nil
	}
	return nil, refusal.New("owner_unknown", "the node knows no owner %.43q", id)
}

// ratesOf returns the rates of an owner that is believed.
func (s *Service) ratesOf(owner string) *rates {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rates[owner]
	if r == nil {
		l := s.o.Limits
		r = &rates{
			receipts: rate.NewLimiter(rate.Limit(l.Rate), max(10*l.Rate, MaxBatch)),
			calls:    rate.NewLimiter(rate.Limit(l.Calls), 10*l.Calls),
		}
		s.rates[owner] = r
	}
	return r
}

// admit takes n from a rate, which is of what.
func (s *Service) admit(l *rate.Limiter, n int, what string) error {
	now := s.o.Now()
	r := l.ReserveN(now, n)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return refusal.Later{
		Refusal: refusal.New("rate_limited", "the owner has more than %g %s a second", float64(l.Limit()), what),
		Seconds: int(min(wait, time.Minute)/time.Second) + 1,
	}
}

// maxReads bounds the sessions that are read at once.
const maxReads = 2

const (
	closedEvery = time.Minute // looks for sessions that were closed
	pruneEvery  = time.Hour
	// keptTokens is how long a used caller token is kept after it has expired, in case the clock falls.
	keptTokens = time.Hour
)

// Run enters closed sessions in the logs of their agents, settles disputes, takes their samples, makes baselines and removes what is old, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var pruned time.Time
	work := func() {
		if err := s.Enter(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("not all closed sessions were entered in the logs of their agents", zap.Error(err))
		}
		if err := s.Sample(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("the baselines were not made", zap.Error(err))
		}
		if now := s.o.Now(); now.Sub(pruned) >= pruneEvery {
			if err := s.o.Store.Prune(ctx, store.Old{Sessions: now.Add(-s.o.Retention), Tokens: now.Add(-keptTokens), Samples: maxSamples}); err != nil && ctx.Err() == nil {
				s.o.Log.Error("what is old was not removed", zap.Error(err))
			}
			pruned = now
		}
	}
	var settled sync.WaitGroup
	settled.Go(func() { s.settleAlways(ctx) })
	defer settled.Wait()
	work()
	for range every.Tick(ctx, closedEvery) {
		work()
	}
	return nil
}
