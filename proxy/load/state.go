package load

import (
	"math"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/share"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/session"
)

// State counts the work. It is safe for concurrent use.
type State struct {
	Limits
	calls, sockets   *share.Pool // in flight or open, of this pipeline and its predecessors
	hosts            *hosts
	unknown, refused *flood.Quota // of unknown callers, and of all sessions together
	log              *zap.Logger
	now              func() time.Time
}

// New makes a State for limits that pass Check. It continues the counts of a non-nil before: always the calls in
// flight, and the others if their limits are unchanged.
func New(l Limits, before *State, log *zap.Logger, now func() time.Time) *State {
	l.setDefaults()
	s := &State{Limits: l, log: log, now: now}
	if before == nil {
		before = &State{calls: new(share.Pool), sockets: new(share.Pool)}
	}
	s.calls, s.sockets, s.hosts = before.calls, before.sockets, before.hosts
	s.unknown, s.refused = before.unknown, before.refused
	if l.Host != before.Limits.Host || l.Breaker != before.Breaker {
		s.hosts = &hosts{known: lru.New[address, *host](hostCapacity)}
	}
	if l.Unknown != before.Unknown {
		s.unknown = s.quota(l.Unknown, "calls of unknown callers left no record")
	}
	if l.Refused != before.Refused {
		s.refused = s.quota(10*l.Refused, "refused calls of all sessions together left no record")
	}
	return s
}

// quota makes a quota that logs the calls that it stopped.
func (s *State) quota(most int, stopped string, fields ...zap.Field) *flood.Quota {
	return flood.NewQuota(most, func(leftOut int) {
		s.log.Warn(stopped, append(fields, zap.Int("calls", leftOut))...)
	})
}

// Record reports whether a call leaves a record on which nothing depends. A nil session is an unknown caller's.
func (s *State) Record(of *session.Session) bool {
	if of == nil {
		return s.unknown.Pass()
	}
	return of.Records(func() *flood.Quota {
		return s.quota(s.Refused, "refused calls of a session left no record", zap.String("session", of.ID))
	}).Pass() && s.refused.Pass()
}

// InFlight returns the calls in flight and the open WebSockets.
func (s *State) InFlight() (calls, sockets int64) { return s.calls.Taken(), s.sockets.Taken() }

// Slot is a call's place among the calls in flight, and perhaps the open WebSockets. The zero Slot is no place.
type Slot struct {
	of     *State
	party  string
	socket bool
}

// Enter counts a call of a party, which is empty for unknown callers, as in flight until Leave. It never waits.
func (s *State) Enter(party string) (Slot, error) {
	if !s.calls.Take(party, 1, int64(s.Calls)) {
		return Slot{}, refusal.New("overloaded",
			"the session has used up its share of the %d calls that may be in flight at once; nothing was sent",
			s.Calls)
	}
	return Slot{of: s, party: party}, nil
}

// Taken reports whether the slot is a place.
func (s *Slot) Taken() bool { return s.of != nil }

// Socket counts an open WebSocket until Leave.
func (s *Slot) Socket() error {
	if s.socket = s.of.sockets.Take(s.party, 1, int64(s.of.WebSockets)); !s.socket {
		return refusal.New("overloaded",
			"the session has used up its share of the %d WebSockets that may be open at once; nothing was sent",
			s.of.WebSockets)
	}
	return nil
}

// Leave frees the place, once.
func (s *Slot) Leave() {
	if s.of == nil {
		return
	}
	s.of.calls.Give(s.party, 1)
	if s.socket {
		s.of.sockets.Give(s.party, 1)
	}
	*s = Slot{}
}

// Session counts a call or CONNECT against its session's rate, if it has a session.
func (s *State) Session(of *session.Session) error {
	if of == nil {
		return nil
	}
	now := s.now()
	return take(of.Bucket(rate.Limit(s.Limits.Session.PerSecond), s.Limits.Session.Burst, now), now, "the session")
}

// Node counts a request to the node, which the sidecar and the owner's other agents share.
func (s *State) Node(of *session.Session) error {
	return take(of.Node(), s.now(), "the session at "+match.Own)
}

// take takes one token from a bucket, or refuses in the name of who.
func take(bucket *rate.Limiter, now time.Time, who string) error {
	if bucket.AllowN(now, 1) {
		return nil
	}
	// Cancelling a reservation would lose tokens when several are made at once.
	perSecond := float64(bucket.Limit())
	return limited((1-bucket.TokensAt(now))/perSecond, "%s gets more than %g calls per second; nothing was sent", who,
		perSecond)
}

func limited(seconds float64, format string, args ...any) error {
	return refusal.Later{Refusal: refusal.New("rate_limited", format, args...),
		Seconds: max(1, int(math.Ceil(seconds)))}
}
