package upstream

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/refusal"
)

// Breaker says when a host is left alone.
type Breaker struct {
	Failures int           // of the upstream, in a row, that suspend calls to it; 10 if 0
	Pause    time.Duration // until one call at a time may try it again; 15 s if 0
}

// Circuit is the circuit breaker of one host and port. It is safe for concurrent use.
type Circuit struct {
	host     string
	failures int
	now      func() time.Time
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	resumes  atomic.Int64 // when a suspension ends, in Unix nanoseconds
}

// NewCircuit makes the breaker of t, which has not failed yet. b must have no zero value. The breaker itself goes by
// the system's clock; now only says when a suspension ends.
func NewCircuit(t Target, b Breaker, log *zap.Logger, now func() time.Time) *Circuit {
	c := &Circuit{host: t.Authority(), failures: b.Failures, now: now}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     b.Pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return uint64(c.ConsecutiveFailures) >= uint64(b.Failures) },
		IsExcluded:  func(err error) bool { return err == errNotAsked }, //nolint:errorlint // our own value
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				c.resumes.Store(now().Add(b.Pause).UnixNano())
			}
			log.Warn("upstream", zap.String("host", t.Address()), zap.Stringer("breaker", to))
		},
	})
	return c
}

// Allow permits one call, or refuses it with upstream_suspended. The caller settles each permit.
func (c *Circuit) Allow() (Permit, error) {
	done, err := c.breaker.Allow()
	if err != nil {
		left := time.Unix(0, c.resumes.Load()).Sub(c.now())
		return Permit{}, refusal.Later{
			Refusal: refusal.New("upstream_suspended",
				"calls to %s are suspended after %d failures in a row; nothing was sent", c.host, c.failures),
			Seconds: max(1, int(math.Ceil(left.Seconds()))),
		}
	}
	return Permit{done}, nil
}

// Permit is leave for one call to a host. The zero value is that of no host.
type Permit struct{ done func(error) }

// Settle tells how the upstream did: by the status of its answer, or by the error that came in place of one; 0 and nil
// if it was not asked. Only the first call of Settle counts.
func (p *Permit) Settle(status int, err error) {
	if p.done != nil {
		p.done(verdict(status, err))
		p.done = nil
	}
}

var (
	errFault    = errors.New("upstream: the host failed")
	errNotAsked = errors.New("upstream: the host was not asked, or could not help it")
)

// verdict says what a call tells about its upstream. It fails by not being there, and by saying so itself; with any
// other status it is there, whatever it thinks of the call. What the agent or the mediator broke off says nothing.
func verdict(status int, err error) error {
	switch {
	case isFault(err), slices.Contains(faultStatuses, status):
		return errFault
	case err == nil && status != 0:
		return nil
	}
	return errNotAsked
}

// faultStatuses do not have 500, which some servers answer to bad input: an agent could suspend a host by it that is
// well.
var faultStatuses = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// faultCodes are those of [Transport], of a node and of a response that an upstream, its name or the way to it is to blame for.
var faultCodes = []string{
	"upstream_unresolvable", "upstream_unreachable", "upstream_certificate_untrusted", "upstream_tls_failed", "upstream_timeout", "upstream_lost", "node_unavailable",
}

func isFault(err error) bool {
	if err == nil {
		return false
	}
	var refused *refusal.Refusal
	return errors.As(err, &refused) && slices.Contains(faultCodes, refused.Code())
}
