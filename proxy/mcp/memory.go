package mcp

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Bounds on what is kept of one session of an agent.
const (
	maxTools   = 1024
	maxOpen    = 16 // calls whose answer broke off
	maxServers = 64 // that are told apart in a [servers]
)

// Peer is a server as a session talks to it: its endpoint, and the session that it has given the client. Query is the
// hash of the URL's query, by which some endpoints are several servers, each with tools of its own; to others it says
// nothing, so that it tells nothing else apart.
type Peer struct{ Server, Session, Query string }

// same reports whether messages to both may come to one session of a server.
func (p Peer) same(o Peer) bool { return p.Server == o.Server && p.Session == o.Session }

// tools names the server whose tools are shown.
func (p Peer) tools() string { return p.Server + "?" + p.Query }

// Memory is what the servers of one session of an agent have asked and shown. The zero value is empty. It is safe for
// concurrent use.
type Memory struct {
	mu        sync.Mutex // guards all below
	questions []question // not yet answered
	unread    servers    // that sent a message which could not be read: it counts as any question
	prompted  bool       // a human has answered a server, or may have

	tools  definitions
	era    int     // grows when a list of tools is lost: no tool is known until it is shown again
	misled servers // whose lists of tools may have been another one for the client

	flights    []*Flight
	open       []*open
	unresolved bool // there is a post that will have no result any more
}

// Prompted reports whether a human has answered a server in this session, or may have.
func (m *Memory) Prompted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prompted
}

// servers is a set of servers. It holds every server once it has more than maxServers.
type servers struct {
	names []string
	all   bool
}

func (s *servers) has(server string) bool { return s.all || slices.Contains(s.names, server) }

func (s *servers) add(server string) {
	if !s.has(server) {
		s.names = append(s.names, server)
		s.all = len(s.names) > maxServers
	}
}

// last returns the last elements of s, at most n.
func last[T any](s []T, n int) []T {
	if len(s) <= n {
		return s
	}
	return slices.Delete(s, 0, len(s)-n)
}

// checkTool refuses the call of a pinned tool unless the session was shown the pinned definition and no other one. It
// also refuses headers that do not repeat the arguments that the definition names.
func (m *Memory) checkTool(c *Message, header http.Header, peer Peer, pin string) error {
	m.mu.Lock()
	d, shown := m.tools.get(peer.tools(), c.Name)
	current := shown && d.era == m.era
	misled := m.misled.has(peer.Server)
	m.mu.Unlock()
	switch {
	case pin != "" && shown && d.hash != pin:
		return refusal.New("mcp_tool_changed",
			"the definition of the tool %s is not the pinned one: its hash is %s", c.Name, d.hash)
	case pin != "" && shown && d.changed:
		return refusal.New("mcp_tool_changed",
			"the tool %s is pinned, and the server has shown another definition of it in this session", c.Name)
	case pin != "" && misled:
		return refusal.New("mcp_tool_unseen",
			"the tool %s is pinned, and the server may have shown a definition in this session that could not be read", c.Name)
	case pin != "" && !current:
		return refusal.New("mcp_tool_unseen",
			"the definition of the tool %s is pinned, and the server has not shown it in this session", c.Name)
	case current:
		return d.checkHeaders(c, header)
	}
	return nil
}

// show notes the definition of a tool, and returns the hash of the one before. taken says that the client takes the
// list it stands in. If it may not, the definition counts as another one, but does not make the tool known.
func (m *Memory) show(server, tool string, d definition, named, taken bool) (before string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.tools.get(server, tool)
	if named && !known && m.tools.full() { // or the server could have one forgotten: it stays unknown
		return ""
	}
	d.era = -1
	if known && !taken {
		d.era = old.era
	}
	if taken {
		d.era = m.era
	}
	d.changed = known && (old.changed || old.hash != d.hash)
	return m.tools.put(server, tool, d, named)
}

// open is a request whose answer broke off and may be resumed.
type open struct {
	peer   Peer
	id     ID
	of     string // as [Flight] has it
	post   bool
	events []string // ids of the events of its answer, by which a client may resume it
	done   func(Result)
	timer  *time.Timer
}

// Keep keeps a request whose answer broke off for so long at most, until its result comes with a resumed answer. done
// is called once, by another goroutine, with [ResultLost] if no result came.
func (m *Memory) Keep(a *Answer, wait time.Duration, done func(Result)) {
	o := &open{
		peer: a.peer, id: a.Sent.ID, of: continued(a.Sent.Method, a.Sent.Name, ""),
		post: a.Flight != nil && a.Flight.post, events: slices.Clone(a.events), done: done,
	}
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

// Sent says that a request is sent. One with the same id whose answer broke off gets no result any more: nobody could
// tell which of the two a resumed answer is for.
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
