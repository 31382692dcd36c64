package mcp

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Bounds on the memory of one session.
const (
	maxTools = 1024
	maxOpen  = 16  // calls with a broken answer
	maxSet   = 256 // entries of one [set]
	maxEarly = 64  // early answers of one origin
)

// Peer is a server's endpoint and the MCP session that it gave the client. Server is the origin and the path's hash: a
// path can be long. Query is the hash of the URL's query, which may select one of several servers with their own tools:
// so it separates tools, and nothing else.
type Peer struct{ Server, Session, Query string }

func (p Peer) same(o Peer) bool { return p.Server == o.Server && p.Session == o.Session }

func (p Peer) tools() string { return p.Server + "?" + p.Query }

// Clients may get answers from another path of the server's origin.
func (p Peer) origin() string {
	scheme, rest, _ := strings.Cut(p.Server, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

func (p Peer) near(o Peer) bool { return p.origin() == o.origin() && p.Session == o.Session }

// pathOf returns the path of a location at the server's origin. Other locations, which clients may read differently,
// have no path that begins with a slash.
func (p Peer) pathOf(location ...string) string {
	path := strings.TrimPrefix(strings.Join(location, ", "), p.origin())
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	return path
}

// Memory is what one session's servers have asked and shown. It is safe for concurrent use.
type Memory struct {
	mu        sync.Mutex // guards all below
	questions []question // without an answer
	unread    set        // servers that sent an unreadable message, which counts as any question and any list of tools
	unheard   set        // origins with an unread stream, which may go on
	early     set        // answers that came before a request with their id
	doubtful  set        // requests that a server may have refused unseen with [byURL]
	prompted  bool       // a human may have answered a server

	tools  map[[2]string]definition // by server and tool
	era    int                      // grows when a tool list is lost: all tools are then unknown until shown again
	misled set                      // servers and origins that may have shown the client another tool list

	flights    []*Flight
	open       []*open
	unresolved bool // a post will never have a result
}

// Prompted reports whether a human may have answered a server in this session.
func (m *Memory) Prompted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prompted
}

// set contains every text beyond maxSet.
type set struct {
	texts []string
	all   bool
}

func (s *set) has(text string) bool { return s.all || slices.Contains(s.texts, text) }

func (s *set) add(text string) {
	if !s.has(text) {
		s.texts = append(s.texts, text)
		s.all = len(s.texts) > maxSet
	}
}

func (s *set) count(prefix string) (n int) {
	for _, text := range s.texts {
		if strings.HasPrefix(text, prefix) {
			n++
		}
	}
	return n
}

func last[T any](s []T, n int) []T {
	if len(s) <= n {
		return s
	}
	return slices.Delete(s, 0, len(s)-n)
}

// checkTool refuses to call a pinned tool unless the session has seen the pinned definition and no other.
func (m *Memory) checkTool(c *Message, header http.Header, peer Peer, pin string) error {
	m.mu.Lock()
	d, shown := m.tools[[2]string{peer.tools(), c.Name}]
	current := shown && d.era == m.era
	other, elsewhere := m.tools[[2]string{peer.origin(), c.Name}]
	misled := m.misled.has(peer.Server) || m.misled.has(peer.origin()) || m.unread.has(peer.Server)
	m.mu.Unlock()
	switch {
	case pin != "" && shown && d.hash != pin:
		return refusal.New("mcp_tool_changed",
			"the definition of the tool %s is not the pinned one: its hash is %s", c.Name, d.hash)
	case pin != "" && (shown && d.changed || elsewhere && (other.changed || other.hash != pin)):
		return refusal.New("mcp_tool_changed",
			"the tool %s is pinned, and the server has shown another definition of it in this session", c.Name)
	case pin != "" && misled:
		return refusal.New("mcp_tool_unseen",
			"the tool %s is pinned, but an answer of this session that could not be read may have redefined it",
			c.Name)
	case pin != "" && !current:
		return refusal.New("mcp_tool_unseen",
			"the definition of the tool %s is pinned, and the server has not shown it in this session", c.Name)
	case current:
		return d.checkHeaders(c, header)
	}
	return nil
}

// show returns the previous definition's hash. A definition that is not taken counts as a changed one, but does not
// make the tool known.
func (m *Memory) show(server, tool string, d definition, taken bool) (before string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{server, tool}
	old, known := m.tools[key]
	origin, most := Peer{Server: server}.origin(), maxTools
	if server == origin {
		most /= 2 // what a server lists beyond the rules leaves room for the others' tools
	}
	if !known && len(m.tools) >= most {
		if !taken { // it could change a tool of another URL
			m.misled.add(origin)
		}
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
	if m.tools == nil {
		m.tools = make(map[[2]string]definition)
	}
	m.tools[key] = d
	return old.hash
}

type open struct {
	*Flight
	events []string // ids of events from which a client may resume
	done   func(Result)
	timer  *time.Timer
}

// Keep keeps a request with a broken answer until a resumed answer has its result, or wait has passed. Another
// goroutine then calls done once.
func (m *Memory) Keep(a *Answer, wait time.Duration, done func(Result)) {
	o := &open{Flight: a.Flight, events: slices.Clone(a.events), done: done}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.timer = time.AfterFunc(wait, func() { m.conclude(ResultLost, func(other *open) bool { return other == o }) })
	m.open = append(m.open, o)
	for _, first := range m.open[:max(0, len(m.open)-maxOpen)] {
		first.timer.Reset(0)
	}
}

// conclude ends the matching requests, each once. A result is unseen if the client may have accepted another answer.
func (m *Memory) conclude(result Result, which func(*open) bool) {
	var ended []func()
	m.mu.Lock()
	m.open = slices.DeleteFunc(m.open, func(o *open) bool {
		if !which(o) {
			return false
		}
		o.timer.Stop()
		result := result
		if result.final() && (o.elsewhere || o.unsure) {
			result = ResultUnseen
		}
		if result.final() {
			m.remove(o.Flight)
		}
		// without a final result, or with one by which the server goes on, it may still work on a post
		m.unresolved = m.unresolved || o.post && (!result.final() || result == ResultUnfinished)
		ended = append(ended, func() { o.done(result) })
		return true
	})
	m.mu.Unlock()
	for _, end := range ended {
		end()
	}
}

// Sent gives up a broken request whose id is sent again: a resumed answer could belong to either.
func (m *Memory) Sent(peer Peer, id ID) {
	m.conclude(ResultLost, func(o *open) bool { return o.peer.same(peer) && o.id == id })
}

// resumes reports whether an answer that a client resumes after an event may be the request's.
func (o *open) resumes(peer Peer, lastEvent string) bool {
	return o.peer.same(peer) && slices.Contains(o.events, lastEvent)
}

// follow notes an event on a resumed answer, or with an empty one a message that some clients take for the answer.
func (m *Memory) follow(peer Peer, lastEvent, event string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.open {
		switch {
		case !o.resumes(peer, lastEvent):
		case event == "":
			o.unsure = true
		default:
			o.events = last(append(o.events, event), maxEvents)
		}
	}
}

// resume notes a result on a resumed answer. end concludes its request, once the result is sure to pass. Some clients
// take an answer with another id on a resumed stream for the request's too.
func (m *Memory) resume(peer Peer, lastEvent string, id ID, result Result) (end func()) {
	which := func(o *open) bool { return o.id == id && lastEvent != "" && o.resumes(peer, lastEvent) }
	m.mu.Lock()
	defer m.mu.Unlock()
	matching := 0
	for _, o := range m.open {
		if which(o) {
			matching++
		}
	}
	for _, o := range m.open {
		switch {
		case which(o) && matching > 1: // clients without a session: only one of them has the result
			o.unsure = true
		case which(o) && result.final():
			m.remove(o.Flight)
		case o.id != id && o.resumes(peer, lastEvent):
			o.unsure = true
		}
	}
	return func() { m.conclude(result, which) }
}
