package api

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/internal/limit"
)

// DefaultRate is the default of Options.Rate.
const DefaultRate = 20

const (
	// maxAddresses bounds the addresses with a known rate; the least recently seen are forgotten.
	maxAddresses = 8192
	// maxLarge bounds the deliveries read at once, for their memory, and maxLargeOfOne those of one address, which could
	// send slowly to keep others out.
	maxLarge, maxLargeOfOne = 16, 4
	// maxCalls and maxCallsOfOne bound concurrent requests to Options.MCP for the same reasons.
	maxCalls, maxCallsOfOne = 64, 16
)

type limits struct {
	now  func() time.Time
	rate int

	large, calls *places

	mu        sync.Mutex // guards addresses
	addresses *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newLimits(o Options) *limits {
	return &limits{
		now: o.Now, rate: cmp.Or(o.Rate, DefaultRate),
		large:     newPlaces("deliveries of receipts", maxLarge, maxLargeOfOne),
		calls:     newPlaces("calls over MCP", maxCalls, maxCallsOfOne),
		addresses: lru.New[netip.Prefix, *rate.Limiter](maxAddresses),
	}
}

func (l *limits) admit(r *http.Request) error {
	from, ok := Network(r.RemoteAddr)
	if !ok {
		return nil // a unix socket
	}
	return limit.Take(l.of(from), l.now(), 1,
		refusal.New("rate_limited", "more than %d requests a second come from this address", l.rate))
}

// charge delays the next requests of an address as if it had made n more.
func (l *limits) charge(r *http.Request, n int) {
	if from, ok := Network(r.RemoteAddr); ok && n > 0 {
		limiter := l.of(from)
		limiter.ReserveN(l.now(), min(n, limiter.Burst()))
	}
}

func (l *limits) of(from netip.Prefix) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, ok := l.addresses.Get(from)
	if !ok {
		limiter = rate.NewLimiter(rate.Limit(l.rate), 5*l.rate)
		l.addresses.Put(from, limiter)
	}
	return limiter
}

// Network returns the network that shares one limit: an IPv4 address or an IPv6 /64. A unix socket has none.
func Network(remote string) (netip.Prefix, bool) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Prefix{}, false
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}, false
	}
	address = address.Unmap().WithZone("")
	bits := 32
	if address.Is6() {
		bits = 64
	}
	p, err := address.Prefix(bits)
	return p, err == nil
}

// places bounds concurrent requests of one kind, in all and per address.
type places struct {
	what      string
	most, one int

	mu      sync.Mutex // guards all below
	taken   int
	takenBy map[netip.Prefix]int
}

func newPlaces(what string, most, one int) *places {
	return &places{what: what, most: most, one: one, takenBy: make(map[netip.Prefix]int)}
}

func (p *places) take(r *http.Request) (done func(), err error) {
	from, counted := Network(r.RemoteAddr)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.taken >= p.most:
		return nil, refusal.New("overloaded", "the node is already reading %d %s, which is the limit", p.most, p.what)
	case counted && p.takenBy[from] >= p.one:
		return nil, refusal.New("overloaded", "the node is already reading %d %s from this address, which is the limit",
			p.one, p.what)
	}
	p.count(from, 1)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count(from, -1)
	}, nil
}

func (p *places) count(from netip.Prefix, n int) {
	p.taken += n
	if p.takenBy[from] += n; p.takenBy[from] == 0 {
		delete(p.takenBy, from)
	}
}
