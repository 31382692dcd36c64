// Package session holds the sessions of agents: each is one run, opened by one event.
package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/trigger"
)

// maxSessions bounds the sessions that are open at once.
const maxSessions = 4096

// Session is one agent run, opened by exactly one trigger event.
type Session struct {
	ID      string
	Runtime string
	Event   trigger.Event
	Opened  time.Time
	// Run is what is seen of the agent's processes; nil where it was not mediator run that started the agent.
	Run *observe.Run

	// Memory is what MCP servers have asked and shown, and whether a human may have answered one.
	Memory mcp.Memory

	// Chain is that of the session's interaction receipts.
	Chain *receipts.Chain

	// Content is the key by which blocks of content are hashed; it never leaves the process.
	Content [inference.MinKey]byte

	secret [sha256.Size]byte // hash of the proxy password, which is not kept; zero where connections name the session
	life   context.Context   //nolint:containedctx // done at the end of the session
	end    context.CancelFunc

	mu         sync.Mutex    // guards all below
	transcript string        // hash chain over the calls so far, see Note
	bucket     *rate.Limiter // see Bucket
	node       *rate.Limiter // see Node
	refusals   []Refusal     // the oldest first
	records    *flood.Quota  // see Records
}

// Life returns a context that is done when the session ends.
func (s *Session) Life() context.Context { return s.life }

// Note appends one call to the session's transcript: a hash chain, so that a receipt can name all that went before it.
func (s *Session) Note(entry string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transcript = evidence.HashBytes([]byte(s.transcript + "\n" + entry))
}

// Transcript returns the hash chain over the calls that the session has made so far.
func (s *Session) Transcript() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transcript
}

// Look looks at the session's run now, and returns what was seen of the session so far.
func (s *Session) Look(ctx context.Context) (look.Report, error) {
	_, err := s.Run.Look(ctx)
	return s.Report(), err
}

// Report returns what was seen of the session: of its run, and of what went out for it.
func (s *Session) Report() look.Report {
	r := s.Run.Report()
	if s.Memory.Prompted() {
		r.Found = append(r.Found, look.Finding{Kind: look.Answer})
	}
	return r
}

// Bucket returns the session's own bucket of a rate, full at its first call; where the rate has changed, what is in it stays. It goes
// with the session, so there are no more of them than sessions.
func (s *Session) Bucket(perSecond rate.Limit, burst int, now time.Time) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.bucket == nil:
		s.bucket = rate.NewLimiter(perSecond, burst)
	case s.bucket.Limit() != perSecond || s.bucket.Burst() != burst:
		s.bucket.SetLimitAt(now, perSecond)
		s.bucket.SetBurstAt(now, burst)
	}
	return s.bucket
}

// What a session may ask of the node: a fraction of what the node takes from all agents of an owner.
const nodePerSecond, nodeBurst = 5, 50

// Records is the quota of records of calls that rest on nothing, such as refusals. The first call of Records makes it.
func (s *Session) Records(first func() *flood.Quota) *flood.Quota {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		s.records = first()
	}
	return s.records
}

// Node is the bucket of the session's requests to the node. It is full at the first of them.
func (s *Session) Node() *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		s.node = rate.NewLimiter(nodePerSecond, nodeBurst)
	}
	return s.node
}

// Set holds the sessions that are open. They live in memory alone: after a restart every agent has to be started again,
// which is the safe side. It is safe for concurrent use.
type Set struct {
	now  func() time.Time
	turn *semaphore.Weighted // of 1, held while somebody waits for the event of the pod's next session

	mu       sync.RWMutex // guards all below
	byID     map[string]*Session
	standing *Session // the pod's one open session, found without credentials
}

// NewSet makes an empty set.
func NewSet(now func() time.Time) *Set {
	return &Set{now: now, turn: semaphore.NewWeighted(1), byID: make(map[string]*Session)}
}

// Open opens a session for one event and returns it with the password of its proxy credentials; the user name is the
// session's id. The password is not kept and cannot be asked for again. run is the agent's run as far as it is seen, or nil; it ends
// with the session.
func (s *Set) Open(event trigger.Event, runtime string, run *observe.Run) (*Session, string, error) {
	password := evidence.NewID() + evidence.NewID()
	session, err := s.open(event, runtime, run, sha256.Sum256([]byte(password)))
	return session, password, err
}

// OpenListening opens a session as Open does, but without a password: the session has a listener of its own, and each connection
// there belongs to it ([intercept.Proxy.ServeSession]).
func (s *Set) OpenListening(event trigger.Event, runtime string, run *observe.Run) (*Session, error) {
	return s.open(event, runtime, run, [sha256.Size]byte{})
}

func (s *Set) open(event trigger.Event, runtime string, run *observe.Run, secret [sha256.Size]byte) (*Session, error) {
	session := s.make(event, runtime)
	session.Run, session.secret = run, secret
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxSessions {
		return nil, refusal.New("overloaded", "%d sessions are open already", maxSessions)
	}
	s.byID[session.ID] = session
	return session, nil
}

// OpenStanding makes event's session the pod's one open session, in place of the one before.
func (s *Set) OpenStanding(event trigger.Event, runtime string) *Session {
	session := s.make(event, runtime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standing != nil {
		s.remove(s.standing)
	}
	s.standing = session
	s.byID[session.ID] = session
	return session
}

func (s *Set) make(event trigger.Event, runtime string) *Session {
	now := s.now()
	session := &Session{ID: "ses_" + evidence.NewOrderedID(now), Runtime: runtime, Event: event, Opened: now}
	session.life, session.end = context.WithCancel(context.Background())
	_, _ = rand.Read(session.Content[:]) // which never fails
	session.transcript = evidence.HashBytes([]byte(session.ID + "\n" + event.ID))
	session.Chain = receipts.NewChain(session.ID, event.ID, now, session.Content)
	return session
}

// Close ends a session; its credentials are worthless from now on, also in tunnels that are open. It reports whether the
// session was open.
func (s *Set) Close(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.byID[id]
	if ok {
		s.remove(session)
	}
	return ok
}

// CloseRun ends the session of a run and returns it, or nil if there is none.
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
	if session == s.standing {
		s.standing = nil
	}
	session.Run.End()
	session.end()
	session.Chain.Close(interaction.ClosedEnded)
}

// CloseStanding ends the pod's one open session and returns it, or nil if there is none.
func (s *Set) CloseStanding() *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.standing
	if ended != nil {
		s.remove(ended)
	}
	return ended
}

// Standing returns the pod's one open session, or nil if there is none.
func (s *Set) Standing() *Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.standing
}

// Turn waits, for so long at most, until nobody else is about to replace the pod's one open session. The caller may then do so, until it
// calls done.
func (s *Set) Turn(ctx context.Context, wait time.Duration) (done func(), ok bool) {
	if !s.turn.TryAcquire(1) { // which Acquire would not try after no time at all
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if s.turn.Acquire(ctx, 1) != nil {
			return nil, false
		}
	}
	return func() { s.turn.Release(1) }, true
}

// Runs returns the run of each open session, nil for one that nothing is seen of.
func (s *Set) Runs() []*observe.Run {
	s.mu.RLock()
	defer s.mu.RUnlock()
	runs := make([]*observe.Run, 0, len(s.byID))
	for _, session := range s.byID {
		runs = append(runs, session.Run)
	}
	return runs
}

// Get returns the open session with this id.
func (s *Set) Get(id string) (*Session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	session, ok := s.byID[id]
	return session, ok
}

// Of returns the session that a call belongs to: that of the listener that its connection came to, or else by its credentials, as
// Find does.
func (s *Set) Of(route intercept.Route) (*Session, error) {
	if route.Session == "" {
		return s.Find(route.ProxyAuthorization)
	}
	session, open := s.Get(route.Session)
	if !open {
		return nil, refusal.New("session_required", "the session of this connection has ended")
	}
	return session, nil
}

// Find returns the session that a call belongs to: by its proxy credentials, or, where the call has none, the pod's one open
// session. Wrong credentials never fall back to the open session.
func (s *Set) Find(proxyAuthorization string) (*Session, error) {
	if proxyAuthorization == "" {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if s.standing == nil {
			return nil, refusal.New("session_required", "the call names no session and this pod has none open")
		}
		return s.standing, nil
	}
	id, password, ok := basicCredentials(proxyAuthorization)
	if !ok {
		return nil, refusal.New("session_required", "the proxy credentials are not of the form that mediator run gives out")
	}
	session, open := s.Get(id)
	got := sha256.Sum256(password)
	var want [sha256.Size]byte // of no password
	if open {
		want = session.secret
	}
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return nil, refusal.New("session_required", "the proxy credentials belong to no open session; it may have ended")
	}
	return session, nil
}

// basicCredentials reads RFC 7617 credentials.
func basicCredentials(header string) (user string, password []byte, ok bool) {
	scheme, encoded, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", nil, false
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", nil, false
	}
	name, password, ok := bytes.Cut(raw, []byte(":"))
	return string(name), password, ok
}
