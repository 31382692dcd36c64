package proxy

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/refusal"
)

// host is what is known of one host and port.
type host struct {
	bucket  *rate.Limiter
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	resumes atomic.Int64 // when a suspension ends, in Unix nanoseconds
}

// newHost makes a host that has not failed yet. Its breaker takes the time from the system's clock; now only says when it ends.
func newHost(address string, l Load, log *zap.Logger, now func() time.Time) *host {
	h := &host{bucket: l.Host.bucket()}
	h.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     l.Breaker.Pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return uint64(c.ConsecutiveFailures) >= uint64(l.Breaker.Failures) },
		IsExcluded:  func(err error) bool { return err == errNotAsked }, //nolint:errorlint // our own value
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				h.resumes.Store(now().Add(l.Breaker.Pause).UnixNano())
			}
			log.Warn("upstream", zap.String("host", address), zap.Stringer("breaker", to))
		},
	})
	return h
}

// allow gives leave for one call. A call that gets it settles it.
func (h *host) allow(t Target, b Breaker, now time.Time) (permit, error) {
	done, err := h.breaker.Allow()
	if err != nil {
		left := time.Unix(0, h.resumes.Load()).Sub(now)
		return permit{}, retryable{refusal.New("upstream_suspended", "calls to %s are suspended after %d failures in a row; nothing was sent", t.Authority(), b.Failures), seconds(left.Seconds())}
	}
	return permit{done}, nil
}

// permit is leave for one call to a host. The zero value is that of no host.
type permit struct{ done func(error) }

// settle tells how the upstream did: by the status of its answer, or by the error that came in place of one; 0 and nil if it was not
// asked. Only the first call of settle counts.
func (p *permit) settle(status int, err error) {
	if p.done != nil {
		p.done(verdict(status, err))
		p.done = nil
	}
}

var (
	errFault    = errors.New("proxy: the upstream failed")
	errNotAsked = errors.New("proxy: the upstream was not asked, or could not help it")
)

// verdict says what a call tells about its upstream. It fails by not being there, and by saying so itself; with any other status it is
// there, whatever it thinks of the call. What the agent or the mediator broke off says nothing.
func verdict(status int, err error) error {
	switch {
	case isFault(err), slices.Contains(faultStatuses, status):
		return errFault
	case err == nil && status != 0:
		return nil
	}
	return errNotAsked
}

// faultStatuses do not have 500, which some servers answer to bad input: an agent could suspend a host by it that is well.
var faultStatuses = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// faultCodes are those of [Transport] and of a response that an upstream, its name or the way to it is to blame for.
var faultCodes = []string{
	"upstream_unresolvable", "upstream_unreachable", "upstream_certificate_untrusted", "upstream_tls_failed", "upstream_timeout", "upstream_lost",
}

func isFault(err error) bool {
	if err == nil {
		return false
	}
	var refused *refusal.Refusal
	return errors.As(err, &refused) && slices.Contains(faultCodes, refused.Code())
}
