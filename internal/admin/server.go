// Package admin is the operators' side of the sidecar, out of the agent's reach: sessions, records, the deployment, metrics, health.
//
//	server.go   what the sidecar answers
//	records.go  records as operators see them, and what they can ask for
//	client.go   how commands, and processes, ask a process
package admin

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/trigger"
)

// Deployment tells each control of the manifest, with what is seen of it now.
type Deployment interface {
	Controls(ctx context.Context) []policy.ObservedControl
}

// Server answers operators. All fields but Agent are required.
type Server struct {
	*daemon.Process
	Sessions *proxy.Sessions
	Record   ledger.Store
	Triggers *trigger.Client
	Watch    *observe.Watch
	Runtime  string
	Proxy    string // address of the proxy port
	CAFile   string
	Agent    *uint32 // the agent's user, where the configuration names one
	Peers    []Peer  // the other processes
	Ready    atomic.Bool

	deployment atomic.Pointer[Deployment] // nil until the manifest is there
}

// SetDeployment says whose controls are told from now on.
func (s *Server) SetDeployment(d Deployment) { s.deployment.Store(&d) }

// SessionRequest asks for a session.
type SessionRequest struct {
	Event string `json:"event"` // empty takes the next one that waits
	// Launcher is whether the process that asks will start the agent, as its child, and be a subreaper to what the agent leaves behind.
	// Its processes are looked at then; which process it is the kernel says.
	Launcher bool `json:"launcher,omitempty"`
}

// Session is what mediator run learns of the session that it asked for.
type Session struct {
	Session  string `json:"session"`
	Event    string `json:"event"`
	ProxyURL string `json:"proxyUrl"` // with the session's credentials
	CAFile   string `json:"caFile"`
	// Agent is the user that the agent is to run as, where the configuration names one.
	Agent *uint32 `json:"agent,omitempty"`
}

// Handler answers every request of operators.
func (s *Server) Handler() http.Handler {
	mux := s.Mux(s.Ready.Load)
	mux.HandleFunc("GET /v1/controls", s.controls)
	mux.HandleFunc("GET /v1/confinement", s.confinement)
	mux.HandleFunc("POST /v1/sessions", s.openSession)
	mux.HandleFunc("DELETE /v1/sessions/{id}", s.closeSession)
	mux.HandleFunc("GET /v1/posts", s.listRecords)
	mux.HandleFunc("GET /v1/posts/{id}", s.showRecord)
	return mux
}

// controls looks at the deployment and answers with each control of its manifest.
func (s *Server) controls(w http.ResponseWriter, r *http.Request) {
	d := s.deployment.Load()
	if d == nil {
		problem.Write(w, refusal.New("not_ready", "the sidecar waits for its manifest or its trust bundle"))
		return
	}
	wire.Write(w, (*d).Controls(r.Context()), nil)
}

// Confinement is what one process says of its confinement.
type Confinement struct {
	Process string          `json:"process"`
	Layers  []confine.Layer `json:"layers"`
	Error   string          `json:"error,omitempty"` // why it says nothing
}

// confinement asks the three processes.
func (s *Server) confinement(w http.ResponseWriter, r *http.Request) {
	out := []Confinement{{Process: "serve", Layers: s.Confined.Layers()}}
	for _, p := range s.Peers {
		said := Confinement{Process: p.Name}
		if err := p.ask(r.Context(), "/v1/layers", &said.Layers); err != nil {
			said.Error = err.Error()
		}
		out = append(out, said)
	}
	wire.Write(w, out, nil)
}

// openSession claims the named event, or the next one where none is named, and opens a session for it.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	var ask SessionRequest
	if err := wire.Read(w, r, &ask); err != nil {
		problem.Write(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	event, err := s.Triggers.Claim(ctx, trigger.Claim{EventID: ask.Event, Runtime: s.Runtime})
	if err != nil {
		problem.Write(w, err)
		return
	}
	var run *observe.Run
	if ask.Launcher {
		peer := daemon.PeerOf(r)
		run = s.Watch.Begin(event.ID, int(peer.Pid), peer.Uid)
	}
	opened, password, err := s.Sessions.Open(event, s.Runtime, run)
	if err != nil {
		run.End()
		if _, back := s.Triggers.Release(ctx, event.ID, s.Runtime); back != nil {
			err = errors.Join(err, back)
		}
		problem.Write(w, err)
		return
	}
	wire.Write(w, Session{Session: opened.ID, Event: event.ID, ProxyURL: "http://" + opened.ID + ":" + password + "@" + s.Proxy, CAFile: s.CAFile, Agent: s.Agent}, nil)
}

// closeSession ends a session; its event stands behind nothing any more.
func (s *Server) closeSession(w http.ResponseWriter, r *http.Request) {
	opened, open := s.Sessions.Get(r.PathValue("id"))
	if !open || !s.Sessions.Close(opened.ID) {
		problem.Write(w, refusal.New("session_unknown", "no session %.80q is open", r.PathValue("id")))
		return
	}
	if _, err := s.Triggers.Done(r.Context(), opened.Event.ID, opened.Runtime); err != nil {
		problem.Write(w, err) // the session has ended all the same
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
