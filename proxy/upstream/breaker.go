package upstream

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
)

// Breaker says when a host is left alone.
type Breaker struct {
	Failures int           // of the upstream, in a row, that suspend calls to it; 10 if 0
	Pause    time.Duration // until a call may try it again; 15 s if 0
}

// Circuit is the circuit breaker of one host and port. What a session asks for can make a host fail, so the failures of
// one session suspend the calls of that session alone. The calls of all sessions are suspended once so many sessions
// have failed, without a success of any, as failures of one session suspend its own. Of what came for a request, only
// failures of posts count for that: an agent can ask for as many others as it likes. It is safe for concurrent use.
type Circuit struct {
	Breaker
	target Target
	log    *zap.Logger
	now    func() time.Time

	mu       sync.Mutex // guards all below
	sessions *lru.Cache[string, *streak]
	failed   map[string]bool // sessions that have failed since the last success, or since the last suspension of all
	until    time.Time       // when the suspension of all ends; zero once a call has succeeded
}

// streak is what one session has met of late.
type streak struct {
	failures int       // in a row
	until    time.Time // when the suspension of the session ends; zero once one of its calls has succeeded
	trying   bool      // a call is under way after a suspension
}

const (
	// maxStreaks bounds the sessions that a circuit remembers. A session that is forgotten begins anew.
	maxStreaks = 256
	// minSessions is how many sessions it takes at least to suspend the calls of all. After such a suspension as many
	// suspend them again.
	minSessions = 2
)

// NewCircuit makes the breaker of t, which has not failed yet. b must have no zero value.
func NewCircuit(t Target, b Breaker, log *zap.Logger, now func() time.Time) *Circuit {
	return &Circuit{
		Breaker: b, target: t, log: log, now: now,
		sessions: lru.New[string, *streak](maxStreaks), failed: make(map[string]bool),
	}
}

// Allow permits one call of a session, or refuses it with upstream_suspended. After a suspension each session has one
// call at a time until one succeeds. The caller settles each permit.
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
				"calls to %s are suspended after %d failures in a row; nothing was sent", c.target.Authority(), c.Failures),
			Seconds: max(1, int(math.Ceil(left.Seconds()))),
		}
	}
	s.trying = !until.IsZero()
	return Permit{circuit: c, session: session, streak: s, tries: s.trying}, nil
}

// Permit is leave for one call to a host. The zero value is that of no host.
type Permit struct {
	circuit *Circuit
	session string
	streak  *streak
	tries   bool
	Post    bool // the call has evidence, which bounds how many of its kind a session can make
}

// Settle tells how the upstream did: by the status of its answer, or by the error that came in place of one; 0 and nil
// if it was not asked. Only the first call of Settle counts.
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
	switch verdict(status, err) {
	case failed:
		c.fail(p, p.Post || unasked(err))
	case succeeded:
		if !s.until.IsZero() || !c.until.IsZero() {
			c.log.Warn("upstream", zap.String("host", c.target.Address()), zap.String("breaker", "closed"))
		}
		s.failures, s.until, c.until = 0, time.Time{}, time.Time{}
		clear(c.failed)
	}
}

// fail counts a failure, which may suspend the calls of its session, and, if it is forAll, those of all. A call that was
// sent before a suspension does not extend it. The caller holds c.mu.
func (c *Circuit) fail(p *Permit, forAll bool) {
	now, s := c.now(), p.streak
	s.failures++
	if (p.tries || s.failures >= c.Failures) && !now.Before(s.until) {
		s.until = now.Add(c.Pause)
		c.log.Warn("upstream", zap.String("host", c.target.Address()), zap.String("breaker", "open"), zap.String("session", p.session))
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

// What a call tells about its upstream.
const (
	untold = iota // the host was not asked, or could not help it
	failed
	succeeded
)

// verdict says what a call tells about its upstream. It fails by not being there, and by saying so itself; with any
// other status it is there, whatever it thinks of the call. What the agent or the mediator broke off says nothing.
func verdict(status int, err error) int {
	switch {
	case isFault(err), slices.Contains(faultStatuses, status):
		return failed
	case err == nil && status != 0:
		return succeeded
	}
	return untold
}

// faultStatuses do not have 500, which some servers answer to bad input.
var faultStatuses = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// unaskedCodes are faults of an upstream, its name or the way to it before it had a request, askedCodes those of [Transport],
// of a node and of a response after that.
var (
	unaskedCodes = []string{"upstream_unresolvable", "upstream_unreachable", "upstream_certificate_untrusted", "upstream_tls_failed"}
	askedCodes   = []string{"upstream_timeout", "upstream_lost", "node_unavailable"}
)

func unasked(err error) bool { return hasCode(err, unaskedCodes) }

func isFault(err error) bool { return unasked(err) || hasCode(err, askedCodes) }

func hasCode(err error, codes []string) bool {
	var refused *refusal.Refusal
	return errors.As(err, &refused) && slices.Contains(codes, refused.Code())
}
