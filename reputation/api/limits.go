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
	// maxLarge bounds the deliveries of receipts that are read at once, since each can take much memory.
	maxLarge = 8
	// maxCalls bounds the requests to Options.MCP that are answered at once, for the same reason.
	maxCalls = 64
)

// limits bound what one address can ask, and how much is read at once.
type limits struct {
	now    func() time.Time
	rate   int
	places chan struct{} // one for each delivery that is being read
	calls  chan struct{} // one for each request to Options.MCP

	mu        sync.Mutex // guards addresses
	addresses *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newLimits(o Options) *limits {
	return &limits{
		now: o.Now, rate: cmp.Or(o.Rate, DefaultRate), places: make(chan struct{}, maxLarge), calls: make(chan struct{}, maxCalls),
		addresses: lru.New[netip.Prefix, *rate.Limiter](maxAddresses),
	}
}

// admit refuses a request of an address that makes too many.
func (l *limits) admit(r *http.Request) error {
	from, ok := Network(r.RemoteAddr)
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

// Network returns what is counted of the address of a request as one: of IPv6 what one subscriber has. A unix socket has none.
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

// large takes a place for a large body, until done is called.
func (l *limits) large() (done func(), err error) {
	return take(l.places, "deliveries of receipts are being read")
}

// call takes a place for a request to Options.MCP, until done is called.
func (l *limits) call() (done func(), err error) {
	return take(l.calls, "calls over MCP are being answered")
}

func take(places chan struct{}, full string) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, refusal.New("node_busy", "%d %s", cap(places), full)
	}
}
