package proxy

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Load bounds what the pipeline takes on. A field that is zero has its default. The defaults are generous: they are there for agents that
// run wild and for upstreams that are gone, and shape no traffic. Whatever is refused here was not sent and has used nothing up.
type Load struct {
	Calls   int              // in flight at once; further ones are refused at once (overloaded); 1024 if 0
	Session Rate             // of each session's calls and CONNECTs (rate_limited); 1000 per second if 0
	Host    Rate             // of the calls to each host and port that some rule allows (rate_limited); 2000 per second if 0
	Breaker upstream.Breaker // of each host and port (upstream_suspended)
	Bodies  body.Limits      // of posts, held while they are verified and sent (overloaded)
	// WebSockets is how many may be open at once; further ones are refused at once (overloaded); 256 if 0.
	WebSockets int
	// Unknown is how many calls a minute, of callers whose session is not known, leave a record and a line in the log; 10 if 0. The
	// others are counted.
	Unknown int
}

// Rate is that of a token bucket.
type Rate struct {
	PerSecond float64
	Burst     int // how many may come at once; as many as two seconds bring, but one at least, if 0
}

// Check says what makes no sense.
func (l Load) Check() error {
	if l.Calls < 0 || l.WebSockets < 0 || l.Session.Burst < 0 || l.Host.Burst < 0 || l.Breaker.Failures < 0 || l.Breaker.Pause < 0 || l.Bodies.Memory < 0 || l.Bodies.Spool < 0 || l.Unknown < 0 {
		return errors.New("a limit is negative")
	}
	for _, r := range []Rate{l.Session, l.Host} {
		if r.PerSecond != 0 && !(r.PerSecond >= minRate && r.PerSecond <= maxRate) { // which no NaN is
			return errors.New("a rate is not between 0.001 and 1000000 per second")
		}
	}
	return nil
}

// Files is how many files a process has to be able to open for the calls in flight and for itself. The agents' connections come on top.
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
}

func (r *Rate) setDefaults(perSecond float64) {
	r.PerSecond = cmp.Or(r.PerSecond, perSecond)
	r.Burst = cmp.Or(r.Burst, max(1, int(2*r.PerSecond)))
}

func (r Rate) bucket() *rate.Limiter { return rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst) }

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

// hostCapacity bounds the hosts that are remembered. Rules can allow any number of subdomains; the session's rate bounds how fast an agent
// can make a host be forgotten.
const hostCapacity = 1024

// load holds what is in flight, and what is known of each host.
type load struct {
	Load
	calls *atomic.Int64 // in flight, of every pipeline that this one has succeeded too
	open  *atomic.Int64 // WebSockets, counted likewise
	hosts *hosts
	// unknown is the quota of records of callers whose session is not known.
	unknown *flood.Quota
	log     *zap.Logger
	now     func() time.Time
}

// host is what is known of one host and port.
type host struct {
	bucket  *rate.Limiter
	circuit *upstream.Circuit
}

// hosts are those that are known.
type hosts struct {
	mu    sync.Mutex // guards known
	known *lru.Cache[address, *host]
}

// newLoad goes on with what before has counted, if there is one: always with the calls in flight, and with the hosts where their limits are
// the same. Under other limits what is known of the hosts begins anew.
func newLoad(l Load, before *load, log *zap.Logger, now func() time.Time) *load {
	l.setDefaults()
	n := &load{Load: l, calls: new(atomic.Int64), open: new(atomic.Int64), hosts: &hosts{known: lru.New[address, *host](hostCapacity)}, log: log, now: now}
	n.unknown = flood.NewQuota(l.Unknown, func(leftOut int) {
		log.Warn("calls of unknown callers left no record", zap.Int("calls", leftOut))
	})
	if before != nil {
		n.calls, n.open = before.calls, before.open
		if l.Unknown == before.Unknown {
			n.unknown = before.unknown
		}
		if l.Host == before.Host && l.Breaker == before.Breaker {
			n.hosts = before.hosts
		}
	}
	return n
}

// enter counts a call as in flight, until leave. It never waits.
func (l *load) enter(c *call) error {
	for {
		n := l.calls.Load()
		if n >= int64(l.Calls) {
			return refusal.New("overloaded", "the mediator has %d calls in flight already; nothing was sent", n)
		}
		if l.calls.CompareAndSwap(n, n+1) {
			c.entered = true
			return nil
		}
	}
}

func (l *load) leave(c *call) {
	if c.entered {
		l.calls.Add(-1)
	}
	if c.webSocket {
		l.open.Add(-1)
	}
}

// webSocket counts a call as an open WebSocket, until leave.
func (l *load) webSocket(c *call) error {
	c.webSocket = true
	if n := l.open.Add(1); n > int64(l.WebSockets) {
		return refusal.New("overloaded", "the mediator has %d WebSockets open already; nothing was sent", n-1)
	}
	return nil
}

// session counts one call of s.
func (l *load) session(s *session.Session) error {
	now := l.now()
	return l.Session.take(s.Bucket(rate.Limit(l.Session.PerSecond), l.Session.Burst, now), now, "the session")
}

// node counts one request of s to the node. Other agents of the owner, whom the node cannot tell from this one before it has read the request, and
// the sidecar itself have to get their answers too.
func (l *load) node(s *session.Session) error {
	bucket := s.Node()
	return Rate{PerSecond: float64(bucket.Limit())}.take(bucket, l.now(), "the session at "+InternalHost)
}

// host counts a call to its host, and asks the host's breaker for leave.
func (l *load) host(c *call) (upstream.Permit, error) {
	h := l.find(c.target)
	if err := l.Host.take(h.bucket, l.now(), c.record.Host); err != nil {
		return upstream.Permit{}, err
	}
	return h.circuit.Allow()
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
		h = &host{bucket: l.Host.bucket(), circuit: upstream.NewCircuit(t, l.Breaker, l.log, l.now)}
		l.hosts.known.Put(at, h)
	}
	return h
}
