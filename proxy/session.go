package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/mcp"
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

	memory   mcp.Memory             // what MCP servers have asked and shown
	content  [inference.MinKey]byte // the key by which blocks of content are hashed; it never leaves the process
	prompted atomic.Bool            // a human has answered an MCP server

	secret [sha256.Size]byte // hash of the proxy password; the password itself is not kept
	ended  chan struct{}     // see Ended

	mu         sync.Mutex    // guards all below
	transcript string        // hash chain over the calls so far, see Note
	bucket     *rate.Limiter // see bucketOf
	rate       Rate          // of bucket
}

// Note appends one call to the session's transcript: a hash chain, so that a receipt can name all that went before it.
func (s *Session) Note(entry string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transcript = evidence.HashBytes([]byte(s.transcript + "\n" + entry))
}

// Ended is closed once the session has ended.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Transcript returns the hash chain over the calls that the session has made so far.
func (s *Session) Transcript() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transcript
}

// Look looks at the session's run now, and returns what was seen of the session so far.
func (s *Session) Look(ctx context.Context) (observe.Report, error) {
	_, err := s.Run.Look(ctx)
	return s.Report(), err
}

// Report returns what was seen of the session: of its run, and of what went out for it.
func (s *Session) Report() observe.Report {
	r := s.Run.Report()
	if s.prompted.Load() {
		r.Found = append(r.Found, observe.Finding{Kind: observe.Answer})
	}
	return r
}

// bucketOf returns the session's own bucket of the rate, full at its first call; where the rate has changed, what is in it stays. It goes
// with the session, so there are no more of them than sessions.
func (s *Session) bucketOf(r Rate, now time.Time) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.bucket == nil:
		s.bucket, s.rate = r.bucket(), r
	case s.rate != r:
		s.bucket.SetLimitAt(now, rate.Limit(r.PerSecond))
		s.bucket.SetBurstAt(now, r.Burst)
		s.rate = r
	}
	return s.bucket
}

// Sessions holds the sessions that are open. They live in memory alone: after a restart every agent has to be started again,
// which is the safe side. It is safe for concurrent use.
type Sessions struct {
	now  func() time.Time
	turn *semaphore.Weighted // of 1, held while somebody waits for the event of the pod's next session

	mu       sync.RWMutex // guards all below
	byID     map[string]*Session
	standing *Session // the pod's one open session, found without credentials
}

// NewSessions makes an empty set.
func NewSessions(now func() time.Time) *Sessions {
	return &Sessions{now: now, turn: semaphore.NewWeighted(1), byID: make(map[string]*Session)}
}

// Open opens a session for one event and returns it with the password of its proxy credentials; the user name is the
// session's id. The password is not kept and cannot be asked for again. run is the agent's run as far as it is seen, or nil; it ends
// with the session.
func (s *Sessions) Open(event trigger.Event, runtime string, run *observe.Run) (*Session, string, error) {
	password := evidence.NewID() + evidence.NewID()
	session := s.make(event, runtime)
	session.Run = run
	session.secret = sha256.Sum256([]byte(password))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxSessions {
		return nil, "", refusal.New("sessions_exhausted", "%d sessions are open already", maxSessions)
	}
	s.byID[session.ID] = session
	return session, password, nil
}

// OpenStanding makes event's session the pod's one open session, in place of the one before.
func (s *Sessions) OpenStanding(event trigger.Event, runtime string) *Session {
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

func (s *Sessions) make(event trigger.Event, runtime string) *Session {
	now := s.now()
	session := &Session{ID: "ses_" + evidence.NewOrderedID(now), Runtime: runtime, Event: event, Opened: now, ended: make(chan struct{})}
	_, _ = rand.Read(session.content[:]) // which never fails
	session.transcript = evidence.HashBytes([]byte(session.ID + "\n" + event.ID))
	return session
}

// Close ends a session; its credentials are worthless from now on, also in tunnels that are open. It reports whether the
// session was open.
func (s *Sessions) Close(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.byID[id]
	if !ok {
		return false
	}
	s.remove(session)
	if session == s.standing {
		s.standing = nil
	}
	session.Run.End()
	return true
}

// CloseStanding ends the pod's one open session and returns it, or nil if there is none.
func (s *Sessions) CloseStanding() *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.standing
	if ended != nil {
		s.remove(ended)
		s.standing = nil
	}
	return ended
}

// remove ends an open session. The caller holds s.mu.
func (s *Sessions) remove(session *Session) {
	delete(s.byID, session.ID)
	close(session.ended)
}

// Standing returns the pod's one open session, or nil if there is none.
func (s *Sessions) Standing() *Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.standing
}

// Turn waits, for so long at most, until nobody else is about to replace the pod's one open session. The caller may then do so, until it
// calls done.
func (s *Sessions) Turn(ctx context.Context, wait time.Duration) (done func(), ok bool) {
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
func (s *Sessions) Runs() []*observe.Run {
	s.mu.RLock()
	defer s.mu.RUnlock()
	runs := make([]*observe.Run, 0, len(s.byID))
	for _, session := range s.byID {
		runs = append(runs, session.Run)
	}
	return runs
}

// Get returns the open session with this id.
func (s *Sessions) Get(id string) (*Session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	session, ok := s.byID[id]
	return session, ok
}

// Find returns the session that a call belongs to: by its proxy credentials, or, where the call has none, the pod's one open
// session. Wrong credentials never fall back to the open session.
func (s *Sessions) Find(proxyAuthorization string) (*Session, error) {
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
		return nil, refusal.New("session_credentials", "the proxy credentials are not of the form that mediator run gives out")
	}
	session, open := s.Get(id)
	got := sha256.Sum256(password)
	var want [sha256.Size]byte
	if open {
		want = session.secret
	}
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return nil, refusal.New("session_credentials", "the proxy credentials belong to no open session; it may have ended")
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
