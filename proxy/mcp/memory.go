package mcp

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Bounds on the memory of one session.
const (
	maxTools  = 1024
	maxMisled = 256
)

// Peer is a server's endpoint and the MCP session that it gave the client. Server is the origin and the path's hash: a
// path can be long. Query is the hash of the URL's query, which may select one of several servers.
type Peer struct{ Server, Session, Query string }

// NewPeer returns the endpoint at an escaped path of an origin.
func NewPeer(origin, path, query, session string) Peer {
	return Peer{origin + "/" + evidence.HashBytes([]byte(path)), session, evidence.HashBytes([]byte(query))}
}

func (p Peer) tools() string { return p.Server + "?" + p.Query }

func (p Peer) origin() string {
	scheme, rest, _ := strings.Cut(p.Server, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// Memory is what one session's servers have asked and shown. It is safe for concurrent use.
type Memory struct {
	mu        sync.Mutex // guards all below
	questions []question // without an answer
	prompted  bool       // a human may have answered a server

	tools  map[[2]string]definition // by server and tool
	misled []string                 // servers that sent the client elsewhere for a list of tools

	flights    []*Flight
	unresolved bool // a post will never have a result
}

// Prompted reports whether a human may have answered a server in this session.
func (m *Memory) Prompted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prompted
}

// checkTool refuses to call a pinned tool unless the session has seen the pinned definition and no other.
func (m *Memory) checkTool(c *Message, header http.Header, peer Peer, pin string) error {
	m.mu.Lock()
	d, shown := m.tools[[2]string{peer.tools(), c.Name}]
	misled := slices.Contains(m.misled, peer.Server) || len(m.misled) == maxMisled
	m.mu.Unlock()
	switch {
	case pin != "" && shown && d.hash != pin:
		return refusal.New("mcp_tool_changed",
			"the definition of the tool %s is not the pinned one: its hash is %s", c.Name, d.hash)
	case pin != "" && d.changed:
		return refusal.New("mcp_tool_changed",
			"the tool %s is pinned, and the server has shown another definition of it in this session", c.Name)
	case pin != "" && misled:
		return refusal.New("mcp_tool_unseen",
			"the tool %s is pinned, but the server has sent the client to another URL for its list of tools", c.Name)
	case pin != "" && !shown:
		return refusal.New("mcp_tool_unseen",
			"the definition of the tool %s is pinned, and the server has not shown it in this session", c.Name)
	case shown:
		return d.checkHeaders(c, header)
	}
	return nil
}

// show returns the previous definition's hash.
func (m *Memory) show(server, tool string, d definition) (before string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{server, tool}
	old, known := m.tools[key]
	if !known && len(m.tools) >= maxTools {
		return ""
	}
	d.changed = known && (old.changed || old.hash != d.hash)
	if m.tools == nil {
		m.tools = make(map[[2]string]definition)
	}
	m.tools[key] = d
	return old.hash
}
