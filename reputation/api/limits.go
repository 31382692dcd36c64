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
)

const (
	// maxAddresses bounds the addresses whose rate is known. One that was not seen for longest begins anew.
	maxAddresses = 8192
	// maxLarge bounds the deliveries of receipts that are read at once, since each can take much memory, and maxLargeOfOne those of one
	// address, which could send them slowly to keep the others out.
	maxLarge, maxLargeOfOne = 16, 4
)

// limits bound what one address can ask, and how much is read at once.
type limits struct {
	now  func() time.Time
	rate int

	mu        sync.Mutex // guards all below
	addresses *lru.Cache[netip.Prefix, *rate.Limiter]
	reading   int                  // deliveries that are being read
	readingOf map[netip.Prefix]int // those of them that come from an address
}

func newLimits(o Options) *limits {
	return &limits{
		now: o.Now, rate: cmp.Or(o.Rate, DefaultRate),
		addresses: lru.New[netip.Prefix, *rate.Limiter](maxAddresses), readingOf: make(map[netip.Prefix]int),
	}
}

// admit refuses a request of an address that makes too many.
func (l *limits) admit(r *http.Request) error {
	from, ok := network(r.RemoteAddr)
	if !ok {
		return nil // of a unix socket, which admits users by their ids
	}
	now := l.now()
	reserved := l.of(from).ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reserved.CancelAt(now)
	return refusal.Later{
		Refusal: refusal.New("node_rate_limited", "more than %d requests a second come from this address", l.rate),
		Seconds: int(min(wait, time.Minute)/time.Second) + 1,
	}
}

// charge counts a request as n more, since it has cost that much: the next ones of its address wait for it.
func (l *limits) charge(r *http.Request, n int) {
	if from, ok := network(r.RemoteAddr); ok && n > 0 {
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

// network returns what is counted of an address as one: of IPv6 what one subscriber has.
func network(remote string) (netip.Prefix, bool) {
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

// large takes a place for a large body, until done is called.
func (l *limits) large(r *http.Request) (done func(), err error) {
	from, counted := network(r.RemoteAddr)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.reading >= maxLarge:
		return nil, refusal.New("node_busy", "%d deliveries of receipts are being read", maxLarge)
	case counted && l.readingOf[from] >= maxLargeOfOne:
		return nil, refusal.New("node_busy", "%d deliveries of receipts from this address are being read", maxLargeOfOne)
	}
	l.count(from, 1)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count(from, -1)
	}, nil
}

// count notes that n more deliveries are being read.
func (l *limits) count(from netip.Prefix, n int) {
	l.reading += n
	if l.readingOf[from] += n; l.readingOf[from] == 0 {
		delete(l.readingOf, from)
	}
}
