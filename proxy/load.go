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

// Load bounds the work that the pipeline takes on. A field that is zero has its default. The defaults are generous:
// they stop agents that run wild and calls to upstreams that are gone, and shape no traffic. A call that is refused
// here was not sent and has used nothing up. No session can use up what others need: of calls, bodies, WebSockets and a
// host's rate it gets at most as much as it leaves free ([share.Pool]).
type Load struct {
	Calls   int              // in flight at once; further ones are refused at once (overloaded); 1024 if 0
	Session Rate             // of each session's calls and CONNECTs (rate_limited); 1000 per second if 0
	Host    Rate             // of the calls to each host and port of a rule (rate_limited); 2000 per second if 0
	Breaker upstream.Breaker // of each host and port (upstream_suspended)
	Bodies  body.Limits      // of posts, held while they are verified and sent (overloaded)
	// WebSockets bounds those that are open at once; further ones are refused at once (overloaded); 256 if 0.
	WebSockets int
	// Unknown is how many calls a minute, of callers whose session is not known, leave a record and a line in the log; 10
	// if 0. The others are counted.
	Unknown int
	// Refused bounds, for a minute, the records of a session's calls that were refused with nothing signed for them, or
	// were for the mediator itself; 100 if 0. All sessions together have ten times as many. The others are counted.
	Refused int
}

// Rate is that of a token bucket.
type Rate struct {
	PerSecond float64
	Burst     int // how many may come at once; as many as two seconds bring, but one at least, if 0
}

// Check says what makes no sense.
func (l Load) Check() error {
	if min(l.Calls, l.WebSockets, l.Session.Burst, l.Host.Burst, l.Breaker.Failures, l.Unknown, l.Refused) < 0 ||
		l.Breaker.Pause < 0 || l.Bodies.Memory < 0 || l.Bodies.Spool < 0 {
		return errors.New("a limit is negative")
	}
	for _, r := range []Rate{l.Session, l.Host} {
		if r.PerSecond != 0 && !(r.PerSecond >= minRate && r.PerSecond <= maxRate) { // which no NaN is
			return errors.New("a rate is not between 0.001 and 1000000 per second")
		}
	}
	return nil
}

// Files is how many files a process has to be able to open for the calls in flight and for itself, besides the agents'
// connections.
func (l Load) Files() uint64 {
	const own = 200 // the ledger, the sockets between the processes, what is read meanwhile
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

// take takes one token from a bucket of this rate, or refuses in the name of who.
func (r Rate) take(bucket *rate.Limiter, now time.Time, who string) error {
	if bucket.AllowN(now, 1) {
		return nil
	}
	// Not a reservation that is cancelled: where several are made at once, that loses tokens.
	missing := 1 - bucket.TokensAt(now)
	return refusal.Later{
		Refusal: refusal.New("rate_limited", "%s gets more than %g calls per second; nothing was sent", who, r.PerSecond),
		Seconds: max(1, int(math.Ceil(missing/r.PerSecond))),
	}
}

// hostCapacity bounds the hosts that are remembered: rules can allow any number of subdomains.
const hostCapacity = 1024

// load holds what is in flight, and what is known of each host.
type load struct {
	Load
	calls *share.Pool // in flight, of every pipeline that this one has succeeded too
	open  *share.Pool // WebSockets, counted likewise
	hosts *hosts
	// unknown is the quota of records of callers without a known session, and refused that of [Load.Refused] of all
	// sessions.
	unknown, refused *flood.Quota
	log              *zap.Logger
	now              func() time.Time
}

// host is what is known of one host and port.
type host struct {
	circuit *upstream.Circuit

	mu    sync.Mutex  // guards both below
	began time.Time   // when a burst of calls began
	calls *share.Pool // of that burst
}

// take counts a call of a session. A burst of calls has the time in which the rate brings as many.
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
			"%s gets more than %g calls per second, or the session its part of them; nothing was sent", who, of.PerSecond),
		Seconds: max(1, int(math.Ceil((lasts - now.Sub(h.began)).Seconds()))),
	}
}

// hosts are those that are known.
type hosts struct {
	mu    sync.Mutex // guards known
	known *lru.Cache[address, *host]
}

// newLoad goes on with what before has counted, if there is one: always with the calls in flight, and with the hosts if
// their limits are the same.
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

// records reports whether a call that is over leaves a record. A call that leaves none is counted.
func (l *load) records(c *call) bool {
	switch {
	case c.session == nil:
		return l.unknown.Pass()
	case c.intended() || c.stage == unsure || c.record.State != ledger.StateRefused && c.record.Flow != flowInternal:
		return true
	case len(c.record.Artifacts) > 1: // more than the challenge, so that the record accounts for what was signed
		return true
	}
	id := c.session.ID
	return c.session.Records(func() *flood.Quota {
		return flood.NewQuota(l.Refused, func(leftOut int) {
			l.log.Warn("refused calls of a session left no record", zap.String("session", id), zap.Int("calls", leftOut))
		})
	}).Pass() && l.refused.Pass()
}

// slot is what a call takes of the calls in flight, and of the open WebSockets, for party: the id of its session, or
// empty for all callers without a session.
type slot struct {
	party        string
	call, socket bool
}

// enter counts a call as in flight, until leave. It never waits.
func (l *load) enter(c *call) error {
	c.slot.party = c.record.Session
	if c.slot.call = l.calls.Take(c.slot.party, 1, int64(l.Calls)); !c.slot.call {
		return refusal.New("overloaded",
			"the session has its part of the %d calls in flight already; nothing was sent", l.Calls)
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

// socket counts a call as an open WebSocket, until leave.
func (l *load) socket(c *call) error {
	if c.slot.socket = l.open.Take(c.slot.party, 1, int64(l.WebSockets)); !c.slot.socket {
		return refusal.New("overloaded",
			"the session has its part of the %d open WebSockets already; nothing was sent", l.WebSockets)
	}
	return nil
}

// session counts one call of s.
func (l *load) session(s *session.Session) error {
	now := l.now()
	return l.Session.take(s.Bucket(rate.Limit(l.Session.PerSecond), l.Session.Burst, now), now, "the session")
}

// node counts one request of s to the node, which also has to answer the owner's other agents and the sidecar.
func (l *load) node(s *session.Session) error {
	bucket := s.Node()
	return Rate{PerSecond: float64(bucket.Limit())}.take(bucket, l.now(), "the session at "+InternalHost)
}

// host counts a call to its host, and asks the host's breaker for leave.
func (l *load) host(c *call) (upstream.Permit, error) {
	h := l.find(c.target)
	if err := h.take(c.slot.party, l.Host, l.now(), c.record.Host); err != nil {
		return upstream.Permit{}, err
	}
	return h.circuit.Allow(c.slot.party)
}

// address is what a target is called at.
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
