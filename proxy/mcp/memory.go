package mcp

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Bounds on what is kept of one session of an agent. The oldest goes first; what it was needed for is refused from then on.
const (
	maxQuestions  = 64 // of servers, not yet answered
	maxUnfinished = 64 // requests to which a server wants more
	maxTools      = 1024
	maxOpen       = 16 // calls whose answer broke off
)

// Peer is a server as a session talks to it: its endpoint, and the session that it has given the client. Query is the hash of the URL's query, by
// which some endpoints are several servers, each with tools of its own; to others it says nothing, so that it tells nothing else apart.
type Peer struct{ Server, Session, Query string }

// same reports whether messages to both may come to one session of a server.
func (p Peer) same(o Peer) bool { return p.Server == o.Server && p.Session == o.Session }

// tools names the server whose tools are shown.
func (p Peer) tools() string { return p.Server + "?" + p.Query }

// Memory is what the servers of one session of an agent have asked and shown. The zero value is empty. It is safe for concurrent use.
type Memory struct {
	mu         sync.Mutex // guards all below
	questions  []question
	unfinished []unfinished
	tools      definitions
	flights    []*Flight
	open       []*open
	unresolved bool // there is a post that will have no result any more
}

// question is a request of a server to its client.
type question struct {
	peer   Peer
	id     ID
	method string
}

// unfinished is a request to which a server wants more (InputRequiredResult of 2026-07-28).
type unfinished struct {
	server, method, name string
	state                string            // hash of requestState, empty for none
	asks                 map[string]string // the method of each of inputRequests, by its key
}

// ask notes a request of a server. Of two with one id nobody can tell which one an answer is for: both stay.
func (m *Memory) ask(q question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.questions, q) {
		m.questions = last(append(m.questions, q), maxQuestions)
	}
}

// last returns the last elements of s, at most n.
func last[T any](s []T, n int) []T {
	if len(s) <= n {
		return s
	}
	return slices.Delete(s, 0, len(s)-n)
}

// asked returns the methods of the requests of a server with this id that are not yet answered.
func (m *Memory) asked(peer Peer, id ID) (methods []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.questions {
		if q.peer.same(peer) && q.id == id {
			methods = append(methods, q.method)
		}
	}
	return methods
}

// answered forgets the requests of a server with this id.
func (m *Memory) answered(peer Peer, id ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.questions = slices.DeleteFunc(m.questions, func(q question) bool { return q.peer.same(peer) && q.id == id })
}

// wantMore notes that a server wants more to a request.
func (m *Memory) wantMore(u unfinished) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unfinished = last(append(m.unfinished, u), maxUnfinished)
}

// askedBefore returns the methods of what a retried request answers, or why it is no retry: nobody has asked for it.
func (m *Memory) askedBefore(r *Message, peer Peer) ([]string, error) {
	state := stateHash(r.state)
	m.mu.Lock()
	defer m.mu.Unlock()
	var methods []string // of all requests that may be meant: a server tells them apart, and the mediator cannot
	found := false
	for _, u := range m.unfinished {
		if u.server != peer.Server || u.method != r.Method || u.name != r.Name || u.state != state {
			continue
		}
		answers := make([]string, 0, len(r.inputs))
		for _, key := range r.inputs {
			if method, ok := u.asks[key]; ok {
				answers = append(answers, method)
			}
		}
		if len(answers) == len(r.inputs) {
			methods, found = append(methods, answers...), true
		}
	}
	if found {
		return methods, nil
	}
	return nil, refusal.New("mcp_answer_unasked", "the server has not asked for what this request brings in inputResponses and requestState")
}

func stateHash(state string) string {
	if state == "" {
		return ""
	}
	return evidence.HashBytes([]byte(state))
}

// checkTool refuses the call of a tool whose definition is not the pinned one, and headers that do not repeat the arguments that the
// definition says.
func (m *Memory) checkTool(c *Message, header http.Header, peer Peer, pin string) error {
	m.mu.Lock()
	d, seen := m.tools.get(peer.tools(), c.Name)
	m.mu.Unlock()
	switch {
	case pin != "" && !seen:
		return refusal.New("mcp_tool_unseen", "the definition of the tool %s is pinned, and the server has not shown it in this session", c.Name)
	case pin != "" && d.hash != pin:
		return refusal.New("mcp_tool_changed", "the definition of the tool %s is not the pinned one: its hash is %s", c.Name, d.hash)
	case seen:
		return d.checkHeaders(c, header)
	}
	return nil
}

// show notes the definition of a tool.
func (m *Memory) show(server, tool string, d definition, named bool) (before string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tools.put(server, tool, d, named)
}

// open is a request whose answer broke off and may be resumed.
type open struct {
	peer   Peer
	id     ID
	post   bool
	events []string // ids of the events of its answer, by which a client may resume it
	done   func(Result)
	timer  *time.Timer
}

// Keep keeps a request whose answer broke off for so long at most, until its result comes with a resumed answer. done is called once, by
// another goroutine, with [ResultLost] if no result came.
func (m *Memory) Keep(a *Answer, wait time.Duration, done func(Result)) {
	o := &open{peer: a.peer, id: a.Sent.ID, post: a.Flight != nil && a.Flight.post, events: slices.Clone(a.events), done: done}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.timer = time.AfterFunc(wait, func() { m.giveUp(func(other *open) bool { return other == o }) })
	m.open = append(m.open, o)
	for _, first := range m.open[:max(0, len(m.open)-maxOpen)] {
		first.timer.Reset(0)
	}
}

// take removes open requests, so that each is done once.
func (m *Memory) take(which func(*open) bool) (taken []*open) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = slices.DeleteFunc(m.open, func(o *open) bool {
		if !which(o) {
			return false
		}
		o.timer.Stop()
		taken = append(taken, o)
		return true
	})
	return taken
}

// Sent says that a request is sent. One with the same id whose answer broke off gets no result any more: nobody could tell which of the two
// a resumed answer is for.
func (m *Memory) Sent(peer Peer, id ID) {
	m.giveUp(func(o *open) bool { return o.peer.same(peer) && o.id == id })
}

func (m *Memory) giveUp(which func(*open) bool) {
	for _, o := range m.take(which) {
		if o.post {
			m.mu.Lock()
			m.unresolved = true
			m.mu.Unlock()
		}
		o.done(ResultLost)
	}
}

// follow notes an event of a resumed answer, by which the client may resume it once more.
func (m *Memory) follow(peer Peer, lastEvent, event string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.open {
		if o.peer.same(peer) && slices.Contains(o.events, lastEvent) {
			o.events = last(append(o.events, event), maxEvents)
		}
	}
}

// resume gives a result that came with a resumed answer to the request that it is for.
func (m *Memory) resume(peer Peer, lastEvent string, id ID, result Result) {
	for _, o := range m.take(func(o *open) bool {
		return o.peer.same(peer) && o.id == id && lastEvent != "" && slices.Contains(o.events, lastEvent)
	}) {
		o.done(result)
	}
}
