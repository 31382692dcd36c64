package mcp

import (
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
)

// maxLostLists bounds the requests for tools whose answer broke off and may still come with a resumed one.
const maxLostLists = 16

// Flight is a request on its way, until what became of it is known.
type Flight struct {
	peer Peer
	id   ID
	of   string // names the request, as [continued] does
	post bool   // it posts
	list bool   // it asks for the tools

	// The memory's mutex guards all below.
	settled   bool // its result has come, and passes on to the client
	lost      bool // its own answer ended without a result
	elsewhere bool // an answer to it has come, but not as its own
	unsure    bool // an answer has come that some clients take for its own
}

// Begin notes a request that is about to be sent. While another one with its id is not answered, it is refused: a
// server that tells the two apart by their id answers the one as the other. A server without sessions cannot. One
// server may have several URLs, so that its session alone tells which one it is.
func (m *Memory) Begin(r *Message, peer Peer, post bool) (*Flight, error) {
	f := &Flight{peer: peer, id: r.ID, of: continued(r.Method, r.Name, ""), post: post, list: r.Method == listTools}
	m.mu.Lock()
	defer m.mu.Unlock()
	if peer.Session != "" && slices.ContainsFunc(m.flights, func(o *Flight) bool {
		return !o.lost && !o.settled && o.peer.Session == peer.Session && o.id == r.ID
	}) {
		return nil, refusal.New("message_ambiguous", "another request of this session has the id %s and is not answered yet",
			r.ID)
	}
	m.flights = append(m.flights, f)
	return f, nil
}

// End says that a request is over, with the result that its own answer had, and whether it may have been sent. Without
// a result the client may have tools that are not known here, and the server may still be at work on a post.
func (m *Memory) End(f *Flight, result Result, sent bool) {
	if f == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	isOpen := slices.ContainsFunc(m.open, func(o *open) bool { return o.peer.same(f.peer) && o.id == f.id })
	if f.post && sent && !result.final() && !isOpen {
		m.unresolved = true
	}
	if f.list && !f.elsewhere && (result == ResultLost || result == ResultUnseen) {
		m.era++
		f.lost = true
		if m.lostLists() <= maxLostLists {
			return
		}
		m.misled.add(f.peer.Server)
	}
	m.flights = slices.DeleteFunc(m.flights, func(o *Flight) bool { return o == f })
}

// settle notes the result of a request before the client has it, who may go on at once.
func (m *Memory) settle(f *Flight, result Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f != nil && result.final() {
		f.settled = true
	}
}

// goesOn says that the server goes on with a request although it has answered.
func (m *Memory) goesOn(f *Flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unresolved = m.unresolved || f != nil && f.post
}

// lostLists counts the requests for tools whose answer broke off. The caller holds m.mu.
func (m *Memory) lostLists() (n int) {
	for _, f := range m.flights {
		if f.lost {
			n++
		}
	}
	return n
}

// resembled notes an answer by an id that only some clients take for that of a request (see [ID.like]).
func (m *Memory) resembled(peer Peer, id ID, like string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.flights {
		if f.peer.same(peer) && f.id != id && f.id.like() == like {
			f.unsure = true
			if f.list {
				m.misled.add(f.peer.Server)
			}
		}
	}
}

// strayed notes an answer that came elsewhere than where its request was sent. It reports whether the client takes it
// for the answer to a request for tools.
func (m *Memory) strayed(peer Peer, id ID) (listsTools bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.flights, func(f *Flight) bool { return f.peer.same(peer) && f.id == id && !f.elsewhere })
	if i < 0 {
		return false
	}
	f := m.flights[i]
	f.elsewhere = true
	if f.lost {
		m.flights = slices.Delete(m.flights, i, i+1)
	}
	return f.list
}

// missed notes a message of a server that could not be read. To the client it may have been any question, and while the
// client waits for a list of tools, that list.
func (m *Memory) missed(server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unread.add(server)
	if slices.ContainsFunc(m.flights, func(f *Flight) bool { return f.list && f.peer.Server == server }) {
		m.misled.add(server)
	}
}

// takes reports whether the client takes the own answer to its request for tools.
func (m *Memory) takes(f *Flight) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f == nil || !f.elsewhere
}

// answeredElsewhere reports whether an answer to a request has come elsewhere, which the client may have taken.
func (m *Memory) answeredElsewhere(f *Flight) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f != nil && (f.elsewhere || f.unsure)
}

// posting reports whether a post is on its way or has no result yet, at any server: its receipts say that no human had
// a part in it. The caller holds m.mu.
func (m *Memory) posting() bool {
	return m.unresolved || slices.ContainsFunc(m.flights, func(f *Flight) bool { return f.post && !f.settled }) ||
		slices.ContainsFunc(m.open, func(o *open) bool { return o.post })
}
