package mcp

import (
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Bounds on the requests of one session that wait for a result after their own answers have ended.
const (
	maxLost = 256
	maxKept = 16 // of these: see [Memory.Keep]
)

// Flight is a request until its result passes to the client. The result may come in the request's own answer, or on a
// stream that the client opens. Only the first passes.
type Flight struct {
	id    ID
	of    string // see [requestOf]; empty for a post that is no message
	call  bool   // of a tool
	post  bool
	rules []*Rule // by which the client sees the list of tools that it asks for; nil if it asks for none

	// The memory's mutex guards all below.
	peer   Peer   // only its session changes
	result Result // that has passed
	moved  bool   // the server sends the client elsewhere with it
	lost   bool   // its own answer has ended without a result
	kept   func(Result)
	timer  *time.Timer
}

func (f *Flight) waits() bool { return f.of != "" && f.result == "" && !f.moved }

// requestOf is the same for a request and its repetition.
func requestOf(m *Message) string {
	return evidence.HashBytes([]byte(strings.Join([]string{m.Method, m.Name}, "\x00")))
}

// Begin refuses an id that another open request has: a server could answer one as the other. Only the session separates
// requests, because one server may have several URLs.
func (m *Memory) Begin(r *Message, peer Peer, rules []*Rule, post bool) (*Flight, error) {
	f := &Flight{peer: peer, id: r.ID, of: requestOf(r), call: r.IsCall(), post: post}
	if r.Method == listTools {
		f.rules = rules
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if peer.Session != "" && len(m.waiting(func(o *Flight) bool {
		return !o.lost && o.peer.Session == peer.Session && o.id == r.ID
	})) > 0 {
		return nil, refusal.New("message_ambiguous",
			"another request of this session has the id %s and is not answered yet", r.ID)
	}
	m.flights = append(m.flights, f)
	return f, nil
}

// BeginPost notes a post that is no message to a server.
func (m *Memory) BeginPost() *Flight {
	f := &Flight{post: true}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flights = append(m.flights, f)
	return f
}

// Sent gives up the requests whose id f sends again: an answer could belong to either.
func (m *Memory) Sent(f *Flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveUp(true, m.waiting(func(o *Flight) bool { return o != f && o.lost && o.peer == f.peer && o.id == f.id }))
}

// End ends a request's own answer. sent says that the request may have been sent: the server may then still work on a
// post, and may answer a message on a stream that the client opens. Only a post that is no message gets a result here.
func (m *Memory) End(f *Flight, result Result, sent bool) {
	if f == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.of == "" {
		f.result = result
	}
	f.lost = sent && f.waits()
	m.unresolved = m.unresolved || f.post && sent && !f.result.final() && f.kept == nil
	if !f.lost {
		m.remove(f)
	}
	lost := m.waiting(func(o *Flight) bool { return o.lost })
	m.giveUp(true, lost[:max(0, len(lost)-maxLost)])
}

// Keep keeps a call until its result passes on a stream that the client opens, or wait is over. Another goroutine then
// calls done once.
func (m *Memory) Keep(f *Flight, wait time.Duration, done func(Result)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.result != "" {
		go done(f.result)
		return
	}
	f.kept = done
	f.timer = time.AfterFunc(wait, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.giveUp(false, m.waiting(func(o *Flight) bool { return o == f }))
	})
	kept := m.waiting(func(o *Flight) bool { return o.kept != nil })
	m.giveUp(false, kept[:max(0, len(kept)-maxKept)])
}

// Close ends the wait for the results of all kept calls, because the process ends. It returns once each done has
// returned.
func (m *Memory) Close() {
	var done []func(Result)
	m.mu.Lock()
	for _, f := range m.flights {
		if f.kept != nil && f.result == "" {
			f.timer.Stop()
			done, f.kept = append(done, f.kept), nil
		}
	}
	m.mu.Unlock()
	for _, d := range done {
		d(ResultLost)
	}
}

// waiting returns the matching requests that wait for a result, the oldest first. The caller holds m.mu.
func (m *Memory) waiting(which func(*Flight) bool) (found []*Flight) {
	for _, f := range m.flights {
		if f.waits() && which(f) {
			found = append(found, f)
		}
	}
	return found
}

// giveUp no longer keeps requests. A late result still passes unless they are forgotten. The caller holds m.mu.
func (m *Memory) giveUp(forget bool, flights []*Flight) {
	for _, f := range flights {
		if forget {
			m.remove(f)
		}
		if f.kept != nil {
			f.timer.Stop()
			m.unresolved = m.unresolved || f.post
			go f.kept(ResultLost)
			f.kept = nil
		}
	}
}

func (m *Memory) remove(f *Flight) {
	m.flights = slices.DeleteFunc(m.flights, func(o *Flight) bool { return o == f })
}

// awaiting returns the request that an answer with this id on a stream at peer belongs to, nil if none waits for it.
func (m *Memory) awaiting(peer Peer, id ID) (*Flight, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.waiting(func(f *Flight) bool { return f.peer == peer && f.id.like() == id.like() })
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, unread("several requests without a session wait for an answer with the id %s", id)
}

// settle comes before the client sees the result, because it may react at once. It reports whether the result is the
// first, and so may pass. With goesOn the server goes on with a post; q is what it wants to know first.
func (m *Memory) settle(f *Flight, result Result, goesOn bool, q *question) (first bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !f.waits() {
		return false, nil
	}
	if q != nil {
		q.peer = f.peer
		if err := m.put(*q); err != nil {
			return false, err
		}
	}
	f.result = result
	m.unresolved = m.unresolved || f.post && (goesOn || !result.final())
	if f.lost {
		m.remove(f)
	}
	if f.kept != nil {
		f.timer.Stop()
		go f.kept(result)
	}
	return true, nil
}

// enter puts a request into the session that its answer starts: there the client resumes the answer.
func (m *Memory) enter(f *Flight, session string) {
	if f == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f.peer.Session = session
}

// move notes that the server sends the client elsewhere with its request.
func (m *Memory) move(f *Flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.moved = true
	if f.rules != nil && len(m.misled) < maxMisled && !slices.Contains(m.misled, f.peer.Server) {
		m.misled = append(m.misled, f.peer.Server)
	}
}

// passed returns the result that the client has, if any, and whether the server sent it elsewhere.
func (m *Memory) passed(f *Flight) (result Result, moved bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f.result, f.moved
}

// posting reports whether a post, at any server or API, has no result yet: its receipts will say that no human took
// part. The caller holds m.mu.
func (m *Memory) posting() bool {
	return m.unresolved || slices.ContainsFunc(m.flights, func(f *Flight) bool { return f.post && !f.result.final() })
}
