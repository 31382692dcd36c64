package upstream

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
)

// Breaker says when calls to a host are suspended.
type Breaker struct {
	Failures int           // in a row, before calls are suspended; 10 if 0
	Pause    time.Duration // until a call may try again; 15 s if 0
}

// Circuit is the circuit breaker of one host and port. A session can make a host fail by its requests, so one session's
// failures suspend that session alone. All sessions are suspended once as many sessions as Failures have failed without
// any success. Failures after a request was sent count for that only if it was a post, because agents can make any
// number of other calls. It is safe for concurrent use.
type Circuit struct {
	Breaker
	target Target
	log    *zap.Logger
	now    func() time.Time

	mu       sync.Mutex // guards all below
	sessions *lru.Cache[string, *streak]
	failed   map[string]bool // sessions that failed since the last success or suspension of all
	until    time.Time       // end of the suspension of all; zero after a success
}

type streak struct {
	failures int       // in a row
	until    time.Time // end of the session's suspension; zero after a success
	trying   bool      // a call is trying after a suspension
}

const (
	// maxStreaks bounds the remembered sessions. A forgotten session starts anew.
	maxStreaks = 256
	// minSessions is the fewest sessions whose failures suspend all. After such a suspension it is enough to suspend
	// all again.
	minSessions = 2
)

// NewCircuit makes a closed breaker of t. b must have no zero value.
func NewCircuit(t Target, b Breaker, log *zap.Logger, now func() time.Time) *Circuit {
	return &Circuit{
		Breaker: b, target: t, log: log, now: now,
		sessions: lru.New[string, *streak](maxStreaks), failed: make(map[string]bool),
	}
}

// Allow permits one call, or refuses it with upstream_suspended. After a suspension each session gets one call at a
// time until one succeeds. The caller settles each permit.
func (c *Circuit) Allow(session string) (Permit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sessions.Get(session)
	if !ok {
		s = new(streak)
		c.sessions.Put(session, s)
	}
	until := s.until
	if c.until.After(until) {
		until = c.until
	}
	left := until.Sub(c.now())
	if left > 0 || s.trying {
		return Permit{}, refusal.Later{
			Refusal: refusal.New("upstream_suspended",
				"calls to %s are suspended after %d failures in a row; nothing was sent", c.target.Authority(),
				c.Failures),
			Seconds: max(1, int(math.Ceil(left.Seconds()))),
		}
	}
	s.trying = !until.IsZero()
	return Permit{circuit: c, session: session, streak: s, tries: s.trying}, nil
}

// Permit is permission for one call. The zero value is for no host.
type Permit struct {
	circuit *Circuit
	session string
	streak  *streak
	tries   bool
	Post    bool // has evidence, which bounds the number of such calls
}

// Settle reports the answer's status, or the error in its place; 0 and nil if the upstream was not asked. Only the
// first call counts.
func (p *Permit) Settle(status int, err error) {
	c, s := p.circuit, p.streak
	if c == nil {
		return
	}
	p.circuit = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.tries {
		s.trying = false
	}
	code := refusal.CodeOf(err)
	unasked := slices.Contains(unaskedCodes, code)
	switch {
	// The upstream is not there, or says so itself.
	case unasked, slices.Contains(askedCodes, code), slices.Contains(faultStatuses, status):
		c.fail(p, p.Post || unasked)
	// Any other status is a success. A call broken off by the agent or the mediator says nothing.
	case err == nil && status != 0:
		if !s.until.IsZero() || !c.until.IsZero() {
			c.log.Warn("upstream", zap.String("host", c.target.Address()), zap.String("breaker", "closed"))
		}
		s.failures, s.until, c.until = 0, time.Time{}, time.Time{}
		clear(c.failed)
	}
}

// fail counts a failure for its session and, if forAll, for all. A call sent before a suspension does not extend it.
// The caller holds c.mu.
func (c *Circuit) fail(p *Permit, forAll bool) {
	now, s := c.now(), p.streak
	s.failures++
	if (p.tries || s.failures >= c.Failures) && !now.Before(s.until) {
		s.until = now.Add(c.Pause)
		c.log.Warn("upstream", zap.String("host", c.target.Address()), zap.String("breaker", "open"),
			zap.String("session", p.session))
	}
	if !forAll || now.Before(c.until) {
		return
	}
	c.failed[p.session] = true
	enough := max(minSessions, c.Failures)
	if !c.until.IsZero() {
		enough = minSessions
	}
	if len(c.failed) >= enough {
		c.until = now.Add(c.Pause)
		clear(c.failed)
		c.log.Warn("upstream", zap.String("host", c.target.Address()), zap.String("breaker", "open"))
	}
}

// faultStatuses lacks 500, which some servers answer to bad input.
var faultStatuses = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// unaskedCodes are faults before the upstream had a request: in its name, the way there, or TLS. A dead upstream proxy
// is one, so that it does not cost each call a timeout. askedCodes are faults after that.
var (
	unaskedCodes = []string{"upstream_unresolvable", "upstream_unreachable", "upstream_certificate_untrusted",
		"upstream_tls_failed", "upstream_proxy_unreachable"}
	askedCodes = []string{"upstream_timeout", "upstream_lost", "node_unavailable"}
)
