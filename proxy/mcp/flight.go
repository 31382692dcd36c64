package mcp

import (
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
)

// maxLostLists bounds the requests for tools whose answer broke off, and may still come with a resumed one.
const maxLostLists = 16

// Flight is a request on its way, until what became of it is known.
type Flight struct {
	peer Peer
	id   ID
	post bool // it posts
	list bool // it asks for the tools

	// The memory's mutex guards all below.
	settled   bool // its result has come, and passes on to the client
	lost      bool // its own answer ended without a result
	elsewhere bool // an answer to it has come, but not as its own
	spoiled   bool // some message may have been an answer to it that was not understood
}

// Begin notes a request that is about to be sent. While another one with its id is not answered, it is refused: a server that tells the two
// apart by their id answers the one as the other. A server without sessions cannot. One server may have several URLs, so that its session alone
// tells which one it is.
func (m *Memory) Begin(r *Message, peer Peer, post bool) (*Flight, error) {
	f := &Flight{peer: peer, id: r.ID, post: post, list: r.Method == listTools}
	m.mu.Lock()
	defer m.mu.Unlock()
	if peer.Session != "" && slices.ContainsFunc(m.flights, func(o *Flight) bool { return !o.lost && !o.settled && o.peer.Session == peer.Session && o.id == r.ID }) {
		return nil, refusal.New("mcp_message_ambiguous", "another request of this session has the id %s and is not answered yet", r.ID)
	}
	m.flights = append(m.flights, f)
	return f, nil
}

// End says that a request is over, with the result that its own answer had, and whether it may have been sent. Without a result the client may have
// tools that are not known here, and the server may still be at work on a post.
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
		m.tools = definitions{}
		f.lost = true
		m.dropFirst(func(o *Flight) bool { return o.lost }, maxLostLists)
		return
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

// dropFirst removes the first flights of a kind if there are more than most of it. The caller holds m.mu.
func (m *Memory) dropFirst(of func(*Flight) bool, most int) {
	n := 0
	for _, f := range m.flights {
		if of(f) {
			n++
		}
	}
	m.flights = slices.DeleteFunc(m.flights, func(f *Flight) bool {
		if n <= most || !of(f) {
			return false
		}
		n--
		return true
	})
}

// strayed notes an answer that came elsewhere than where its request was sent, and returns whether it answers a request for tools. What
// answers no request that is known may answer one for those that was spelled otherwise.
func (m *Memory) strayed(peer Peer, id ID) (listsTools bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.flights, func(f *Flight) bool { return f.peer.same(peer) && f.id == id && !f.elsewhere })
	if i < 0 {
		if !slices.ContainsFunc(m.open, func(o *open) bool { return o.peer.same(peer) && o.id == id }) {
			m.spoil(peer.Server)
		}
		return false
	}
	f := m.flights[i]
	f.elsewhere = true
	if f.lost {
		m.flights = slices.Delete(m.flights, i, i+1)
	}
	return f.list && !f.spoiled
}

// missed notes a message of a server that was not read. The client may have taken it for the answer to its request for the tools.
func (m *Memory) missed(server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spoil(server)
}

// spoil forgets all tools if the answer to a request for those of a server is awaited, and does not believe it any more. The caller holds m.mu.
func (m *Memory) spoil(server string) {
	for _, f := range m.flights {
		if f.list && f.peer.Server == server {
			f.spoiled = true
			m.tools = definitions{}
		}
	}
}

// shows reports whether the own answer to a request for tools shows what the client takes for them.
func (m *Memory) shows(f *Flight) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f == nil || !f.elsewhere && !f.spoiled
}

// answeredElsewhere reports whether an answer to a request has come elsewhere, which the client may have taken for its result.
func (m *Memory) answeredElsewhere(f *Flight) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f != nil && f.elsewhere
}

// HumanAnswers notes that a human is about to answer a server, by calling taint, or refuses it while a post is on its way or has no result yet, to
// whatever server: its receipts say that no human had a part in it. No post begins between the two.
func (m *Memory) HumanAnswers(taint func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.flights, func(f *Flight) bool { return f.post && !f.settled }) || slices.ContainsFunc(m.open, func(o *open) bool { return o.post }) || m.unresolved {
		return refusal.New("mcp_elicitation_refused", "the message answers a server with what a human has said, while a post of the session has no result yet")
	}
	taint()
	return nil
}
