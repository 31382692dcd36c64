package proxy

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Load bounds the pipeline's work. A zero field has its default. The defaults are generous: they stop runaway agents
// and calls to dead upstreams, but do not shape traffic. A call refused here was not sent and has used nothing up. No
// session may take more calls, bodies, WebSockets or host rate than it leaves free ([share.Pool]).
type Load struct {
	Calls   int              // in flight; more are refused (overloaded); 1024 if 0
	Session Rate             // of one session's calls and CONNECTs (rate_limited); 1000 per second if 0
	Host    Rate             // of the calls to one host and port (rate_limited); 2000 per second if 0
	Breaker upstream.Breaker // of each host and port (upstream_suspended)
	Bodies  body.Limits      // of posts in the pipeline (overloaded)
	// WebSockets bounds those open; more are refused (overloaded); 256 if 0.
	WebSockets int
	// Unknown bounds the records a minute for callers without a known session; 10 if 0. More are only counted.
	Unknown int
	// Refused bounds a session's records a minute for calls to the mediator itself, and for refused calls without
	// signed artifacts; 100 if 0. All sessions together have ten times as many. More are only counted.
	Refused int
}

type Rate struct {
	PerSecond float64
	Burst     int // calls allowed at once; two seconds' worth, at least one, if 0
}

func (l Load) Check() error {
	if min(l.Calls, l.WebSockets, l.Session.Burst, l.Host.Burst, l.Breaker.Failures, l.Unknown, l.Refused) < 0 ||
		l.Breaker.Pause < 0 || l.Bodies.Memory < 0 || l.Bodies.Spool < 0 {
		return errors.New("a limit is negative")
	}
	for _, r := range []Rate{l.Session, l.Host} {
		if r.PerSecond != 0 && !(r.PerSecond >= minRate && r.PerSecond <= maxRate) { // false for NaN
			return errors.New("a rate is not between 0.001 and 1000000 per second")
		}
	}
	return nil
}

// Files returns how many open files the process needs, without the agents' connections.
func (l Load) Files() uint64 {
	const own = 200 // ledger, sockets between processes, files being read
	l.setDefaults()
	return uint64(l.Calls) + own
}

const minRate, maxRate = 0.001, 1e6

func (l *Load) setDefaults() {
	l.Calls = cmp.Or(l.Calls, 1024)
	l.WebSockets = cmp.Or(l.WebSockets, 256)
	l.Session.setDefaults(1000)
	l.Host.setDefaults(2000)
	l.Breaker.Failures = cmp.Or(l.Breaker.Failures, 10)
	l.Breaker.Pause = cmp.Or(l.Breaker.Pause, 15*time.Second)
	l.Unknown = cmp.Or(l.Unknown, 10)
	l.Refused = cmp.Or(l.Refused, 100)
}

func (r *Rate) setDefaults(perSecond float64) {
	r.PerSecond = cmp.Or(r.PerSecond, perSecond)
	r.Burst = cmp.Or(r.Burst, max(1, int(2*r.PerSecond)))
}

// take takes one token from a bucket, or refuses in the name of who.
func (r Rate) take(bucket *rate.Limiter, now time.Time, who string) error {
	if bucket.AllowN(now, 1) {
		return nil
	}
	// Cancelling a reservation would lose tokens when several are made at once.
	missing := 1 - bucket.TokensAt(now)
	return refusal.Later{
		Refusal: refusal.New("rate_limited", "%s gets more than %g calls per second; nothing was sent", who, r.PerSecond),
		Seconds: max(1, int(math.Ceil(missing/r.PerSecond))),
	}
}

// hostCapacity bounds the remembered hosts: rules may allow any number of subdomains.
const hostCapacity = 1024

type load struct {
	Load
	calls *share.Pool // in flight, of this pipeline and its predecessors
	open  *share.Pool // WebSockets of the same pipelines
	hosts *hosts
	// quotas: of unknown callers, and of all sessions together
	unknown, refused *flood.Quota
	log              *zap.Logger
	now              func() time.Time
}

type host struct {
	circuit *upstream.Circuit

	mu    sync.Mutex  // guards began and calls
	began time.Time   // start of a burst of calls
	calls *share.Pool // of that burst
}

// take counts a session's call. A burst lasts as long as the rate takes for that many calls.
func (h *host) take(session string, of Rate, now time.Time, who string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	lasts := time.Duration(min(float64(of.Burst)/of.PerSecond, 1e9) * float64(time.Second))
	if h.calls == nil || now.Sub(h.began) >= lasts || now.Before(h.began) {
		h.began, h.calls = now, new(share.Pool)
	}
	if h.calls.Take(session, 1, int64(of.Burst)) {
		return nil
	}
	return refusal.Later{
		Refusal: refusal.New("rate_limited",
			"%s gets more than %g calls per second, or the session exceeds its share of them; nothing was sent", who,
			of.PerSecond),
		Seconds: max(1, int(math.Ceil((lasts - now.Sub(h.began)).Seconds()))),
	}
}

type hosts struct {
	mu    sync.Mutex // guards known
	known *lru.Cache[address, *host]
}

// newLoad continues the counts of a non-nil before: always the calls in flight, and the hosts if their limits are
// unchanged.
func newLoad(l Load, before *load, log *zap.Logger, now func() time.Time) *load {
	l.setDefaults()
	n := &load{Load: l, calls: new(share.Pool), open: new(share.Pool), log: log, now: now}
	n.hosts = &hosts{known: lru.New[address, *host](hostCapacity)}
	n.unknown = flood.NewQuota(l.Unknown, func(leftOut int) {
		log.Warn("calls of unknown callers left no record", zap.Int("calls", leftOut))
	})
	n.refused = flood.NewQuota(10*l.Refused, func(leftOut int) {
		log.Warn("refused calls of all sessions together left no record", zap.Int("calls", leftOut))
	})
	if before != nil {
		n.calls, n.open = before.calls, before.open
		if l.Refused == before.Refused {
			n.refused = before.refused
		}
		if l.Unknown == before.Unknown {
			n.unknown = before.unknown
		}
		if l.Host == before.Host && l.Breaker == before.Breaker {
			n.hosts = before.hosts
		}
	}
	return n
}

func (l *load) records(c *call) bool {
	switch {
	case c.session == nil:
		return l.unknown.Pass()
	case c.intended() || c.stage == unsure || c.record.State != ledger.StateRefused && c.record.Flow != flowInternal:
		return true
	case len(c.record.Artifacts) > 1: // more than the challenge was signed: the record must account for it
		return true
	}
	id := c.session.ID
	return c.session.Records(func() *flood.Quota {
		return flood.NewQuota(l.Refused, func(leftOut int) {
			l.log.Warn("refused calls of a session left no record", zap.String("session", id), zap.Int("calls", leftOut))
		})
	}).Pass() && l.refused.Pass()
}

// slot is a call's place among calls in flight and open WebSockets. party is its session's id, or empty.
type slot struct {
	party        string
	call, socket bool
}

// enter counts a call in flight until leave. It never waits.
func (l *load) enter(c *call) error {
	c.slot.party = c.record.Session
	if c.slot.call = l.calls.Take(c.slot.party, 1, int64(l.Calls)); !c.slot.call {
		return refusal.New("overloaded",
			"the session has its whole share of the %d calls in flight; nothing was sent", l.Calls)
	}
	return nil
}

func (l *load) leave(c *call) {
	if c.slot.call {
		l.calls.Give(c.slot.party, 1)
	}
	if c.slot.socket {
		l.open.Give(c.slot.party, 1)
	}
}

// socket counts an open WebSocket until leave.
func (l *load) socket(c *call) error {
	if c.slot.socket = l.open.Take(c.slot.party, 1, int64(l.WebSockets)); !c.slot.socket {
		return refusal.New("overloaded",
			"the session has its whole share of the %d open WebSockets; nothing was sent", l.WebSockets)
	}
	return nil
}

func (l *load) session(s *session.Session) error {
	now := l.now()
	return l.Session.take(s.Bucket(rate.Limit(l.Session.PerSecond), l.Session.Burst, now), now, "the session")
}

// node counts a request of s to the node, which the sidecar and the owner's other agents share.
func (l *load) node(s *session.Session) error {
	bucket := s.Node()
	return Rate{PerSecond: float64(bucket.Limit())}.take(bucket, l.now(), "the session at "+InternalHost)
}

// host counts a call to its host, and gets a permit from the host's breaker.
func (l *load) host(c *call) (upstream.Permit, error) {
	h := l.find(c.target)
	if err := h.take(c.slot.party, l.Host, l.now(), c.record.Host); err != nil {
		return upstream.Permit{}, err
	}
	return h.circuit.Allow(c.slot.party)
}

type address struct {
	host string
	port uint16
}

func (l *load) find(t upstream.Target) *host {
	at := address{t.Host, t.Port}
	l.hosts.mu.Lock()
	defer l.hosts.mu.Unlock()
	h, ok := l.hosts.known.Get(at)
	if !ok {
		h = &host{circuit: upstream.NewCircuit(t, l.Breaker, l.log, l.now)}
		l.hosts.known.Put(at, h)
	}
	return h
}
