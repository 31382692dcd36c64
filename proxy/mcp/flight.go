package mcp

import (
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

const (
	maxLostLists = 16 // of tools
	maxLost      = 256
)

// Flight is a request without its final outcome. One whose answer broke off may still get an answer.
type Flight struct {
	peer Peer
	id   ID     // empty if the entry replaces several requests
	had  []ID   // the latest ids of those
	of   string // identifies the request: see [continued]
	post bool
	list bool // asks for the tools

	// The memory's mutex guards all below.
	settled   bool // its result has come, and passes to the client
	lost      bool // its own answer ended without a result
	elsewhere bool // it was answered on another connection
	unsure    bool // some clients take another answer for its own
}

func (f *Flight) request() string { return f.peer.origin() + " " + f.of }

// Begin refuses an id that another open request has: a server could answer one as the other. Only the session separates
// requests, because one server may have several URLs.
func (m *Memory) Begin(r *Message, peer Peer, post bool) (*Flight, error) {
	f := &Flight{peer: peer, id: r.ID, of: continued(r.Method, r.Name, ""), post: post, list: r.Method == listTools}
	m.mu.Lock()
	defer m.mu.Unlock()
	if peer.Session != "" && slices.ContainsFunc(m.flights, func(o *Flight) bool {
		return !o.lost && !o.settled && o.peer.Session == peer.Session && o.id == r.ID
	}) {
		return nil, refusal.New("message_ambiguous",
			"another request of this session has the id %s and is not answered yet", r.ID)
	}
	m.flights = slices.DeleteFunc(m.flights, func(o *Flight) bool { // its only client waits for the new one
		return peer.Session != "" && o.lost && !o.list && o.peer.same(peer) && o.id == r.ID
	})
	m.flights = append(m.flights, f)
	early := m.early.has(peer.answer(f.id.like())) || !f.id.isText() && m.early.has(peer.answer(anyText))
	if early || m.unheard.has(peer.origin()) { // the client may have, or get, an answer that was not seen
		f.unsure = true
		m.doubtful.add(f.request())
		if f.list {
			m.misled.add(peer.Server)
		}
	}
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

// sent says that the request may have been sent. Without a result the client may know tools that the memory does not,
// and the server may still work on a post.
func (m *Memory) End(f *Flight, result Result, sent bool) {
	if f == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	isOpen := func(f *Flight) bool {
		return slices.ContainsFunc(m.open, func(o *open) bool { return o.Flight == f })
	}
	if f.post && sent && !result.final() && !isOpen(f) {
		m.unresolved = true
	}
	if f.of != "" && !f.elsewhere && (result == ResultLost || result == ResultUnseen) {
		f.lost = true
		most := maxLost
		if f.list {
			m.era++
			most = maxLostLists
		}
		if m.lost(f.list) <= most {
			return
		}
		same := func(o *Flight) bool { return o != f && o.lost && o.request() == f.request() && !isOpen(o) }
		if i := slices.IndexFunc(m.flights, same); i >= 0 && !f.list { // one entry replaces both
			had := last(append(m.flights[i].had, m.flights[i].id, f.id), maxLost)
			m.flights[i] = &Flight{peer: f.peer, had: had, of: f.of, lost: true}
			m.remove(f)
			return
		}
		m.doubtful.add(f.request())
		if f.list {
			m.misled.add(f.peer.Server)
		}
	}
	m.remove(f)
}

func (m *Memory) remove(f *Flight) {
	m.flights = slices.DeleteFunc(m.flights, func(o *Flight) bool { return o == f })
}

// settle comes before the client sees the result, because it may react at once. The server may go on with a post.
func (m *Memory) settle(f *Flight, result Result, goesOn bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f != nil && result.final() {
		f.settled = true
		m.unresolved = m.unresolved || f.post && goesOn
	}
}

// lost counts the requests that broke off. The caller holds m.mu.
func (m *Memory) lost(lists bool) (n int) {
	for _, f := range m.flights {
		if f.lost && f.list == lists {
			n++
		}
	}
	return n
}

// anyText is what clients may read as any number, such as "0x1".
const anyText = `"`

// answer names the answers with ids that clients may take for one another.
func (p Peer) answer(like string) string {
	return strings.Join([]string{p.origin(), p.Session, like}, " ")
}

// resembled notes an answer with an id that only some clients take for a request's own (see [ID.like], [anyText]). An
// answer to no request may come while the client's request is on its way to the mediator.
func (m *Memory) resembled(peer Peer, id ID, like string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := id != "" && slices.ContainsFunc(m.flights, func(f *Flight) bool {
		return f.peer.near(peer) && (f.id == id || slices.Contains(f.had, id))
	})
	for _, f := range m.flights {
		if !f.peer.near(peer) || f.id == id {
			continue
		}
		if f.id.like() == like || !own && id.isText() && !f.id.isText() {
			f.unsure = true
			if f.list {
				m.misled.add(f.peer.Server)
			}
		}
	}
	if own {
		return
	}
	if of := peer.origin() + " "; m.early.count(of) >= maxEarly || len(m.early.texts) > maxSet-2 {
		m.unheard.add(peer.origin()) // servers must not make the others' answers doubtful
		return
	}
	m.early.add(peer.answer(like))
	if id.isText() && like == string(id) {
		m.early.add(peer.answer(anyText))
	}
}

// strayed notes an answer on another connection than its request's. It reports whether the client, or without sure only
// some clients, take it for a tool list that it asked for.
func (m *Memory) strayed(peer Peer, id ID, sure bool) (listsTools bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var of []*Flight // several clients can have no session, so the same id, and each its own stream
	for _, f := range m.flights {
		if f.peer.near(peer) && f.id == id && !f.elsewhere {
			of = append(of, f)
		}
	}
	if len(of) != 1 || !sure || peer.Session == "" || !of[0].peer.same(peer) {
		for _, f := range of {
			f.unsure = true
		}
		return false
	}
	f := of[0]
	f.elsewhere = true
	if f.lost {
		m.remove(f)
	}
	return f.list && f.peer == peer
}

// lists reports whether a client waits for a list of tools from this origin, and could take an unread one for it.
func (m *Memory) lists(peer Peer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.flights, func(f *Flight) bool {
		return f.list && !f.settled && !f.lost && !f.elsewhere && f.peer.origin() == peer.origin()
	})
}

// missed notes an unreadable message, or with goesOn a stream of them. Each may be any question, a list of tools, and a
// refusal with [byURL] of a request that is open meanwhile. With mistaken, clients may take it for the answer to any of
// these but own, whose answer it came on and which knows by itself.
func (m *Memory) missed(peer Peer, goesOn, mistaken bool, own *Flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unread.add(peer.Server)
	if goesOn {
		m.unheard.add(peer.origin())
	}
	for _, f := range m.flights {
		if !f.settled && f.peer.origin() == peer.origin() {
			m.doubtful.add(f.request())
			f.unsure = f.unsure || mistaken && f != own
		}
	}
}

func (m *Memory) doubt(f *Flight) {
	if f == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doubtful.add(f.request())
}

func (m *Memory) redirected(peer Peer, f *Flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unread.add(peer.Server)
	if f != nil {
		f.elsewhere = true
	}
}

// answeredElsewhere reports whether the client has accepted another answer than the request's own, or with orMay may
// have.
func (m *Memory) answeredElsewhere(f *Flight, orMay bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f != nil && (f.elsewhere || orMay && f.unsure)
}

// posting reports whether a post, at any server or API, has no result yet: its receipts will say that no human took
// part. The caller holds m.mu.
func (m *Memory) posting() bool {
	return m.unresolved || slices.ContainsFunc(m.flights, func(f *Flight) bool { return f.post && !f.settled }) ||
		slices.ContainsFunc(m.open, func(o *open) bool { return o.post })
}
