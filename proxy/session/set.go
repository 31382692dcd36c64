package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/trigger"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// Set holds the open sessions, in memory only: after a restart every agent must be started again, which is safe. It is
// safe for concurrent use.
type Set struct {
	// Enforcement says of a session what keeps its agent from going around the mediator, as [evidence.Enforcements]
	// names it. Set it before the first session. By default nothing does.
	Enforcement func(*Session) string
	// Opened and Ended, if set before the first session, get each session when it opens and when it ends. They must not
	// wait.
	Opened, Ended func(*Session)

	now func() time.Time

	mu       sync.RWMutex  // guards all below
	opened   chan struct{} // closed when a session opens; nil if no one waits
	byID     map[string]*Session
	standing map[string]*standing // by the agent's pod; empty for this pod's own
}

// standing is the one session of a pod, found without credentials.
type standing struct {
	turn    *semaphore.Weighted // of 1; held while waiting for the pod's next event
	session *Session            // nil before the first event
	used    time.Time           // when the pod last asked for its session or its next event
}

// maxAgents bounds the pods that have a standing session. The session of the pod that was silent for the longest time
// makes room for another.
const maxAgents = maxSessions / 4

// A session's rate at the node: a fraction of the owner's.
const nodePerSecond, nodeBurst = 5, 50

// NewSet makes an empty set.
func NewSet(now func() time.Time) *Set {
	return &Set{
		Enforcement: func(*Session) string { return evidence.EnforcedNone },
		now:         now, byID: make(map[string]*Session), standing: make(map[string]*standing),
	}
}

// Open opens a session for one event and returns the password of its proxy credentials; the user name is the session's
// id. The password is not kept. run observes the agent, or is nil; it ends with the session.
func (s *Set) Open(event trigger.Event, runtime string, run *observe.Run) (*Session, string, error) {
	password := evidence.NewID() + evidence.NewID()
	session, err := s.add(&Session{Event: event, Runtime: runtime, Run: run, secret: sha256.Sum256([]byte(password))})
	return session, password, err
}

// OpenListening opens a session without a password: it has its own listener, and all connections there belong to it
// ([intercept.Proxy.ServeSession]).
func (s *Set) OpenListening(event trigger.Event, runtime string, run *observe.Run) (*Session, error) {
	return s.add(&Session{Event: event, Runtime: runtime, Run: run})
}

// OpenLearning opens a learning session, which has its own listener and CA.
func (s *Set) OpenLearning(runtime string, run *observe.Run, caPEM []byte) (*Session, error) {
	return s.add(&Session{Runtime: runtime, Run: run, Learning: true, CAPEM: caPEM})
}

func (s *Set) add(session *Session) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxSessions {
		return nil, refusal.New("overloaded", "%d sessions are open already", maxSessions)
	}
	s.put(session)
	return session, nil
}

// put completes a session and opens it. The caller holds s.mu.
func (s *Set) put(session *Session) {
	now := s.now()
	session.ID, session.Opened, session.enforcement = "ses_"+evidence.NewOrderedID(now), now, s.Enforcement
	session.node = rate.NewLimiter(nodePerSecond, nodeBurst)
	session.life, session.end = context.WithCancel(context.Background())
	_, _ = rand.Read(session.Content[:]) // never fails
	session.transcript = evidence.HashBytes([]byte(session.ID + "\n" + session.Event.ID))
	session.Chain = receipts.NewChain(session.ID, session.Event.ID, now, session.Content)
	session.Chain.Enforcement = session.Enforcement
	s.byID[session.ID] = session
	if s.opened != nil {
		close(s.opened)
		s.opened = nil
	}
	if s.Opened != nil {
		s.Opened(session)
	}
}

// None returns a channel that is closed when a session opens, or nil if one is open.
func (s *Set) None() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) > 0 {
		return nil
	}
	if s.opened == nil {
		s.opened = make(chan struct{})
	}
	return s.opened
}

// OpenStanding replaces the one session of an agent's pod by a session for event. An empty agent is this pod.
func (s *Set) OpenStanding(event trigger.Event, runtime, agent string) *Session {
	session := &Session{Event: event, Runtime: runtime, Agent: agent}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(agent)
	if of.session != nil {
		s.remove(of.session)
	}
	of.session = session
	s.put(session)
	return session
}

// of returns an entry of standing, and makes it if there is none. The caller holds s.mu.
func (s *Set) of(agent string) *standing {
	of := s.standing[agent]
	if of == nil {
		if len(s.standing) >= maxAgents {
			s.forget()
		}
		of = &standing{turn: semaphore.NewWeighted(1)}
		s.standing[agent] = of
	}
	of.used = s.now()
	return of
}

// forget ends the session of the pod that was silent for the longest time. The caller holds s.mu.
func (s *Set) forget() {
	var longest string
	for agent, of := range s.standing {
		if other := s.standing[longest]; other == nil || of.used.Before(other.used) {
			longest = agent
		}
	}
	if ended := s.standing[longest].session; ended != nil {
		s.remove(ended)
	}
	delete(s.standing, longest)
}

// Close ends a session. Its credentials are worthless from now on, even in open tunnels. It reports whether the session
// was open.
func (s *Set) Close(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.byID[id]
	if ok {
		s.remove(session)
	}
	return ok
}

// CloseRun ends the session of a run and returns it, or nil.
func (s *Set) CloseRun(run *observe.Run) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.byID {
		if run != nil && session.Run == run {
			s.remove(session)
			return session
		}
	}
	return nil
}

// remove ends a session. The caller holds s.mu.
func (s *Set) remove(session *Session) {
	delete(s.byID, session.ID)
	if of := s.standing[session.Agent]; of != nil && of.session == session {
		of.session = nil
	}
	session.Run.End()
	session.end()
	session.Chain.Close(interaction.ClosedEnded)
	if s.Ended != nil {
		s.Ended(session)
	}
}

// CloseStanding ends the one session of an agent's pod and returns it, or nil.
func (s *Set) CloseStanding(agent string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.of(agent).session
	if ended != nil {
		s.remove(ended)
	}
	return ended
}

// Standing returns the one session of an agent's pod, or nil.
func (s *Set) Standing(agent string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(agent).session
}

// Turn waits, at most this long, for the turn to replace the one session of an agent's pod. The turn lasts until done
// is called.
func (s *Set) Turn(ctx context.Context, agent string, wait time.Duration) (done func(), ok bool) {
	s.mu.Lock()
	turn := s.of(agent).turn
	s.mu.Unlock()
	if !turn.TryAcquire(1) { // Acquire does not try after zero time
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if turn.Acquire(ctx, 1) != nil {
			return nil, false
		}
	}
	return func() { turn.Release(1) }, true
}

// Runs returns the run of each open session, nil for an unobserved one.
func (s *Set) Runs() []*observe.Run {
	s.mu.RLock()
	defer s.mu.RUnlock()
	runs := make([]*observe.Run, 0, len(s.byID))
	for _, session := range s.byID {
		runs = append(runs, session.Run)
	}
	return runs
}

// All returns the open sessions.
func (s *Set) All() []*Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.byID))
}

// Get returns the open session with this id.
func (s *Set) Get(id string) (*Session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	session, ok := s.byID[id]
	return session, ok
}

// Of returns a call's session: that of the agent's pod, of the listener, or else of the credentials, see Find. A
// connection from an agent's pod finds no session of another pod.
func (s *Set) Of(route intercept.Route) (*Session, error) {
	switch {
	case route.Agent != "" && route.ProxyAuthorization != "":
		return nil, refusal.New("session_required",
			"the call has proxy credentials, but an agent in its own pod must not send any")
	case route.Agent != "":
		return s.ofAgent(route.Agent)
	case route.Session == "":
		return s.Find(route.ProxyAuthorization)
	}
	session, open := s.Get(route.Session)
	if !open {
		return nil, refusal.New("session_required", "the session of this connection has ended")
	}
	return session, nil
}

// Find returns the session of these proxy credentials, or without credentials the pod's one session. Wrong credentials
// never fall back to that session.
func (s *Set) Find(proxyAuthorization string) (*Session, error) {
	if proxyAuthorization == "" {
		return s.ofAgent("")
	}
	scheme, token, _ := strings.Cut(proxyAuthorization, " ")
	token = strings.TrimLeft(token, " ") // RFC 9110 section 11.4 allows several spaces, and net/http one
	asked := http.Request{Header: http.Header{"Authorization": {scheme + " " + token}}}
	id, password, ok := asked.BasicAuth()
	if !ok {
		return nil, refusal.New("session_required", "the proxy credentials are not in the form that mediator run gives")
	}
	session, open := s.Get(id)
	got := sha256.Sum256([]byte(password))
	var want [sha256.Size]byte // of no password
	if open {
		want = session.secret
	}
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return nil, refusal.New("session_required", "the proxy credentials belong to no session, or to an ended one")
	}
	return session, nil
}

func (s *Set) ofAgent(agent string) (*Session, error) {
	if session := s.Standing(agent); session != nil {
		return session, nil
	}
	return nil, refusal.New("session_required", "the call names no session and this pod has none open")
}
