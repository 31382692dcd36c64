package load

import (
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/proxy/upstream"
)

// hostCapacity bounds the remembered hosts: rules may allow any number of subdomains.
const hostCapacity = 1024

type hosts struct {
	mu    sync.Mutex // guards known
	known *lru.Cache[address, *host]
}

type address struct {
	host string
	port uint16
}

type host struct {
	circuit *upstream.Circuit

	mu    sync.Mutex  // guards all below
	began time.Time   // start of a burst of calls
	calls *share.Pool // of that burst
}

// Host counts a call to its host for its party ([session.Session.Party]), and gets a permit from the host's breaker.
func (s *State) Host(t upstream.Target, party string) (upstream.Permit, error) {
	h := s.host(t)
	if err := h.take(party, s.Limits.Host, s.now(), t.Address()); err != nil {
		return upstream.Permit{}, err
	}
	return h.circuit.Allow(party)
}

func (s *State) host(t upstream.Target) *host {
	at := address{t.Host, t.Port}
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	h, ok := s.hosts.known.Get(at)
	if !ok {
		h = &host{circuit: upstream.NewCircuit(t, s.Breaker, s.log, s.now)}
		s.hosts.known.Put(at, h)
	}
	return h
}

// take counts a party's call. A burst lasts as long as the rate takes for that many calls.
func (h *host) take(party string, of Rate, now time.Time, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	lasts := time.Duration(min(float64(of.Burst)/of.PerSecond, 1e9) * float64(time.Second))
	if h.calls == nil || now.Sub(h.began) >= lasts || now.Before(h.began) {
		h.began, h.calls = now, new(share.Pool)
	}
	if h.calls.Take(party, 1, int64(of.Burst)) {
		return nil
	}
	return limited((lasts - now.Sub(h.began)).Seconds(),
		"%s gets more than %g calls per second, or the session exceeds its share of them; nothing was sent", name,
		of.PerSecond)
}
