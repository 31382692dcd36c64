// Package load bounds the pipeline's work: calls in flight, rates, failing hosts, and records of refusals, which
// callers could cause without end. The defaults are generous: they stop runaway agents and calls to dead upstreams, but
// do not shape traffic.
package load

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/proxy/upstream"
)

// Limits bound the work. A zero field has its default. A call refused by them was not sent and has used nothing up. No
// session may take more calls, bodies, WebSockets or host rate than it leaves free ([share.Pool]).
type Limits struct {
	Calls   int              // in flight; more are refused (overloaded); 1024 if 0
	Session Rate             // of one session's calls and CONNECTs (rate_limited); 1000 per second if 0
	Host    Rate             // of the calls to one host and port (rate_limited); 2000 per second if 0
	Breaker upstream.Breaker // of each host and port (upstream_suspended)
	Bodies  int64            // of posts in the pipeline, in bytes (overloaded); 64 MiB if 0
	// WebSockets bounds those open; more are refused (overloaded); 256 if 0.
	WebSockets int
	// Unknown bounds the records a minute for callers without a known session; 10 if 0. More are only counted.
	Unknown int
	// Refused bounds a session's records a minute for calls to the mediator itself, and for refused calls without
	// signed artifacts; 100 if 0. All sessions together have ten times as many. More are only counted.
	Refused int
}

// Rate bounds calls by a token bucket; a zero PerSecond means the default.
type Rate struct {
	PerSecond float64
	Burst     int // calls allowed at once; two seconds' worth, at least one, if 0
}

// MinRate and MaxRate bound Rate.PerSecond.
const MinRate, MaxRate = 0.001, 1e6

// Check refuses negative limits, and rates outside of MinRate and MaxRate.
func (l Limits) Check() error {
	if min(l.Calls, l.WebSockets, l.Session.Burst, l.Host.Burst, l.Breaker.Failures, l.Unknown, l.Refused) < 0 ||
		l.Breaker.Pause < 0 || l.Bodies < 0 {
		return errors.New("a limit is negative")
	}
	for _, r := range []Rate{l.Session, l.Host} {
		if r.PerSecond != 0 && !(r.PerSecond >= MinRate && r.PerSecond <= MaxRate) { // false for NaN
			return errors.New("a rate is not between 0.001 and 1000000 per second")
		}
	}
	return nil
}

// Connections returns how many connections to upstreams may be open, with those that wait for the next call.
func (l Limits) Connections() int {
	l.setDefaults()
	return 2 * l.Calls
}

// Files returns how many open files the process needs, without the agents' connections.
func (l Limits) Files() uint64 {
	const own = 200 // ledger, sockets between processes, files being read
	l.setDefaults()
	return uint64(l.Connections()) + own //nolint:gosec // not negative
}

func (l *Limits) setDefaults() {
	l.Calls = cmp.Or(l.Calls, 1024)
	l.WebSockets = cmp.Or(l.WebSockets, 256)
	l.Session.setDefaults(1000)
	l.Host.setDefaults(2000)
	l.Breaker.Failures = cmp.Or(l.Breaker.Failures, 10)
	l.Breaker.Pause = cmp.Or(l.Breaker.Pause, 15*time.Second)
	l.Unknown = cmp.Or(l.Unknown, 10)
	l.Refused = cmp.Or(l.Refused, 100)
}

func (r *Rate) setDefaults(perSecond float64) {
	r.PerSecond = cmp.Or(r.PerSecond, perSecond)
	r.Burst = cmp.Or(r.Burst, max(1, int(2*r.PerSecond)))
}
