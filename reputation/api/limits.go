package api

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/reputation/internal/limit"
)

const DefaultRate = 20

const (
	// maxAddresses bounds the addresses with a known rate; the least recently seen are forgotten.
	maxAddresses = 8192
	// maxBytes bounds the large bodies of all requests in flight: reading and answering one takes several times its
	// memory. Bodies of up to MaxRequest do not count: the listener's bound on connections bounds them, and slow large
	// bodies cannot block them.
	maxBytes = 16 << 20
)

type limits struct {
	now    func() time.Time
	rate   int
	bodies share.Pool
	by     *limit.By[netip.Prefix, *rate.Limiter]
}

func newLimits(o Options) *limits {
	most := cmp.Or(o.Rate, DefaultRate)
	return &limits{now: o.Now, rate: most, by: limit.NewBy[netip.Prefix](maxAddresses, func() *rate.Limiter {
		return rate.NewLimiter(rate.Limit(most), 5*most)
	})}
}

// admit counts a request and, until done is called, the bytes of a large body. An address may send as many at once as
// it leaves free for others. A body of unknown length counts as the longest that the endpoint reads.
func (l *limits) admit(r *http.Request, longest int64) (done func(), err error) {
	from, counted := Network(r.RemoteAddr)
	if counted { // a unix socket is not
		err := limit.Take(l.by.Of(from), l.now(), 1,
			refusal.New("rate_limited", "more than %d requests a second come from this address", l.rate))
		if err != nil {
			return nil, err
		}
	}
	n := min(r.ContentLength, longest)
	if r.ContentLength < 0 {
		n = longest
	}
	if n <= MaxRequest {
		return func() {}, nil
	}
	if !l.bodies.Take(from.String(), n, maxBytes) {
		return nil, refusal.New("overloaded", "the node is reading too many bytes of requests, or too many from this address")
	}
	return func() { l.bodies.Give(from.String(), n) }, nil
}

// charge delays the next requests of an address as if it had made n more.
func (l *limits) charge(r *http.Request, n int) {
	if from, ok := Network(r.RemoteAddr); ok && n > 0 {
		limiter := l.by.Of(from)
		limiter.ReserveN(l.now(), min(n, limiter.Burst()))
	}
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
