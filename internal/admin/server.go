// Package admin is the API for operators: sessions, records, controls, metrics and health. The agent must not be able
// to reach it.
//
//	server.go     the sidecar's API
//	listener.go   listeners that sessions have of their own
//	records.go    records as the API shows them
//	summary.go    counts of the newest records
//	selection.go  which records an operator asks for
//	log.go        the state of the transparency log
//	stream.go     lists of records of any length, written and read
//	client.go     how commands and other processes call the API; named.go an endpoint that a command line names
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/reputation/client"
	"github.com/actionproof/mediator/trigger"
)

const askTimeout = 10 * time.Second

// eventWait bounds one wait for an event, which mediator run --wait repeats.
const eventWait = 30 * time.Second

// Deployment observes the deployment.
type Deployment interface {
	// Controls returns each control of the manifest with its observations.
	Controls(ctx context.Context) []policy.ObservedControl
	// Reputation returns the reputation that a post would have, or nil if the manifest believes none.
	Reputation(ctx context.Context) *Reputation
	// Purpose says what the rule of this name is for now.
	Purpose(rule string) match.Purpose
	// UpstreamProxy connects to the upstream proxy; nil without one.
	UpstreamProxy(ctx context.Context) *UpstreamProxy
	// Rules returns the rules by which the sidecar judges calls, as agents see them.
	Rules() own.Rules
}

// UpstreamProxy is the upstream proxy, and whether it can be reached now.
type UpstreamProxy struct {
	URL    string `json:"url"`
	Code   string `json:"code,omitempty"`   // why it cannot; empty if it can
	Reason string `json:"reason,omitempty"` // the sentence of Code
}

// Reputation is the reputation that a post would have now, and whether the control plane believes it.
type Reputation struct {
	Agent  string     `json:"agent,omitempty"`
	Tier   string     `json:"tier,omitempty"`
	Signed *time.Time `json:"signed,omitempty"`
	Until  *time.Time `json:"until,omitempty"`  // when it ends, if no other comes
	Code   string     `json:"code,omitempty"`   // why rules that need it refuse posts; empty if it is believed
	Reason string     `json:"reason,omitempty"` // the sentence of Code
}

// Enforcement is what keeps agents from going around the sidecar.
type Enforcement struct {
	Mode     string `json:"mode"`     // see [evidence.Enforcements]
	Observed bool   `json:"observed"` // the sidecar sees that it holds
	Missing  bool   `json:"missing"`  // the configuration demands what the sidecar does not see
	Seen     string `json:"seen"`     // one sentence
}

// Server is the sidecar's API for operators. Every field except Agent, Transparency and Logged is required.
type Server struct {
	*daemon.Process
	Sessions *session.Set
	Ledger   ledger.Store
	// Identified is the ledger below the queue, and Ended the queue's ended calls.
	Identified ledger.Identified
	Ended      *ledger.Ended
	// Logged reads the transparency log of that ledger; nil without one.
	Logged   ledger.LogReader
	Triggers *trigger.Client
	Watch    *observe.Watcher
	Runtime  string
	Proxy    string // address of the proxy port
	CAFile   string
	CA       []byte  // the certificate in CAFile
	Agent    *uint32 // the agent's user; nil if the configuration names none
	Peers    []Peer  // the trigger service, the control plane and, where there is one, the node
	// Learning allows learning sessions.
	Learning bool
	// Console is the address of the console, which the sidecar refuses to call.
	Console string
	// Enforcement says what keeps agents without an isolated run from going around the sidecar.
	Enforcement func() Enforcement
	// Transparency describes the transparency log; nil without one.
	Transparency func(context.Context) (*TransparencyLog, error)
	// Posts returns why every post would be refused now.
	Posts daemon.Check

	deployment atomic.Pointer[Deployment]      // nil until the first snapshot
	proxy      atomic.Pointer[intercept.Proxy] // nil until the proxy port is open
	sender     atomic.Pointer[client.Sender]   // nil without a node
	listeners  listeners
}

// SetProxy sets the proxy that serves the listeners of sessions.
func (s *Server) SetProxy(p *intercept.Proxy) { s.proxy.Store(p) }

// SetSender sets the sender of receipts to the node.
func (s *Server) SetSender(d *client.Sender) { s.sender.Store(d) }

// SetDeployment sets the deployment that the API reports. The sidecar calls it for each new configuration.
func (s *Server) SetDeployment(d Deployment) { s.deployment.Store(&d) }

// SessionRequest asks the sidecar to open a session. If a listener comes with it ([OpenSession]), the session has that
// instead of a password.
type SessionRequest struct {
	Event string `json:"event"` // empty: the next waiting event
	// Wait has the sidecar wait up to 30 seconds for an event (event_none).
	Wait bool `json:"wait,omitempty"`
	// Learning asks for a learning session, which has no event. It needs a listener.
	Learning bool `json:"learning,omitempty"`
	// Launcher says that all processes of the agent descend from the calling process, so the sidecar can observe them.
	Launcher bool `json:"launcher,omitempty"`
	// Init is the first process of the agent's own namespaces, if it has any.
	Init int `json:"init,omitempty"`
}

// Session describes an open session to mediator run.
type Session struct {
	Session  string `json:"session"`
	Event    string `json:"event"`
	ProxyURL string `json:"proxyUrl"` // with the session's credentials, if it has no listener
	CAFile   string `json:"caFile"`
	// CA is what an agent with a listener gets in place of CAFile. Root opens no file that the sidecar names.
	CA []byte `json:"ca,omitempty"`
	// Agent is the user of an agent without its own user; nil if the configuration names none.
	Agent *uint32 `json:"agent,omitempty"`
}

// Handler returns the handler for all requests of operators.
func (s *Server) Handler() http.Handler {
	mux := s.Mux(s.Posts)
	mux.HandleFunc("GET /v1/controls", ofDeployment(s, Deployment.Controls))
	mux.HandleFunc("GET /v1/reputation", ofDeployment(s, Deployment.Reputation))
	mux.HandleFunc("GET /v1/upstream-proxy", ofDeployment(s, Deployment.UpstreamProxy))
	mux.HandleFunc("GET /v1/rules",
		ofDeployment(s, func(d Deployment, _ context.Context) own.Rules { return d.Rules() }))
	mux.HandleFunc("GET /v1/confinement", wire.Answer(s.confinement))
	mux.HandleFunc("GET /v1/enforcement", wire.Answer(func(*http.Request) (Enforcement, error) {
		return s.Enforcement(), nil
	}))
	mux.HandleFunc("POST /v1/sessions", s.openSession)
	mux.HandleFunc("DELETE /v1/sessions/{id}", s.closeSession)
	mux.HandleFunc("GET /v1/sessions/{id}/receipts", wire.Answer(s.receipts))
	mux.HandleFunc("GET /v1/posts", s.listRecords)
	mux.HandleFunc("GET /v1/posts/ended", s.followRecords)
	mux.HandleFunc("GET /v1/posts/{id}", wire.Answer(s.record))
	mux.HandleFunc("GET /v1/posts/{id}/proofs", wire.Answer(s.proofs))
	mux.HandleFunc("GET /v1/ledger", wire.Answer(s.ledger))
	mux.HandleFunc("GET /v1/ledger/keys", wire.Answer(s.keyUses))
	mux.HandleFunc("GET /v1/delivery", wire.Answer(s.delivery))
	mux.HandleFunc("GET /v1/log", wire.Answer(s.log))
	mux.HandleFunc("GET /v1/summary", wire.Answer(s.summary))
	mux.HandleFunc("GET /v1/console", wire.Answer(func(*http.Request) (string, error) { return s.Console, nil }))
	return mux
}

// ofDeployment answers with a fact of the deployment.
func ofDeployment[A any](s *Server, ask func(Deployment, context.Context) A) http.HandlerFunc {
	return wire.Answer(func(r *http.Request) (answer A, err error) {
		d := s.deployment.Load()
		if d == nil {
			return answer, refusal.New("not_ready", "the sidecar waits for its manifest or its trust bundle")
		}
		return ask(*d, r.Context()), nil
	})
}

// Confinement says how one process is confined.
type Confinement struct {
	Process string          `json:"process"`
	Layers  []confine.Layer `json:"layers"`
	Error   string          `json:"error,omitempty"` // why there are no layers
}

func (s *Server) confinement(r *http.Request) ([]Confinement, error) {
	out := []Confinement{{Process: "serve", Layers: s.Confined.Layers()}}
	for _, p := range s.Peers {
		said := Confinement{Process: p.Name}
		if err := p.ask(r.Context(), "/v1/layers", &said.Layers); err != nil {
			said.Error = err.Error()
		}
		out = append(out, said)
	}
	return out, nil
}

// openSession claims the event of the request, or the next one, and opens a session for it.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	passed := endpoint.DescriptorOf(r)
	var ask SessionRequest
	if err := wire.Read(w, r, &ask); err != nil {
		_ = passed.Close()
		problem.Write(w, err)
		return
	}
	listener, err := s.listeners.take(passed, s.proxy.Load() != nil)
	if err != nil {
		problem.Write(w, err)
		return
	}
	open := s.open
	if ask.Learning {
		open = s.openLearning
	}
	answer, err := open(r, ask, listener)
	if err != nil {
		listener.Close()
		problem.Write(w, err)
		return
	}
	wire.Write(w, answer, nil)
}

// open opens a session, with a listener or, if that is nil, with a password.
func (s *Server) open(r *http.Request, ask SessionRequest, l *listener) (Session, error) {
	claim := trigger.Claim{EventID: ask.Event, Runtime: s.Runtime}
	if ask.Wait {
		claim.Wait = eventWait
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout+claim.Wait)
	defer cancel()
	event, err := s.Triggers.Claim(ctx, claim)
	if err != nil {
		return Session{}, err
	}
	run := s.begin(r, ask, event.ID, l)
	var opened *session.Session
	var password string
	if l == nil {
		opened, password, err = s.Sessions.Open(event, s.Runtime, run)
	} else {
		opened, err = s.Sessions.OpenListening(event, s.Runtime, run)
	}
	if err == nil {
		err = s.abandoned(r, opened)
	}
	if err != nil {
		run.End()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		if _, back := s.Triggers.Release(ctx, event.ID, s.Runtime); back != nil {
			err = errors.Join(err, back)
		}
		return Session{}, err
	}
	answer := Session{Session: opened.ID, Event: event.ID,
		ProxyURL: "http://" + opened.ID + ":" + password + "@" + s.Proxy, CAFile: s.CAFile, Agent: s.Agent}
	if l != nil {
		answer.ProxyURL, answer.CA = s.serve(opened, l, nil), s.CA
	}
	return answer, nil
}

// openLearning opens a learning session. Its agent is isolated, because otherwise it could post another way, and trusts
// a CA of its own, because the sidecar's may not cover every host.
func (s *Server) openLearning(r *http.Request, ask SessionRequest, l *listener) (Session, error) {
	switch {
	case !s.Learning:
		return Session{}, refusal.New("not_configured", "the sidecar's configuration does not set session.learning")
	case l == nil || !ask.Launcher || ask.Event != "" || !endpoint.InOwnNetwork(r):
		return Session{}, refusal.New("isolation_unavailable",
			"a learning session is for an isolated run without an event: start it with mediator run --learn in the "+
				"sidecar's own network")
	}
	ca, err := intercept.NewCA(intercept.CAOptions{Now: time.Now})
	if err != nil {
		return Session{}, err
	}
	run := s.begin(r, ask, "learning", l)
	opened, err := s.Sessions.OpenLearning(s.Runtime, run, ca.CertificatePEM())
	if err == nil {
		err = s.abandoned(r, opened)
	}
	if err != nil {
		run.End()
		return Session{}, err
	}
	return Session{Session: opened.ID, ProxyURL: s.serve(opened, l, ca), CA: opened.CAPEM}, nil
}

func (s *Server) begin(r *http.Request, ask SessionRequest, name string, l *listener) *observe.Run {
	if !ask.Launcher {
		return nil
	}
	peer := endpoint.PeerOf(r)
	return s.Watch.Begin(name, observe.Launch{PID: int(peer.Pid), UID: peer.Uid, Init: ask.Init, Listener: l.socket()})
}

// abandoned closes a session whose caller went away before it had it: no one else would.
func (s *Server) abandoned(r *http.Request, opened *session.Session) error {
	gone := r.Context().Err() != nil || opened.Run.Report().Has(look.Launcher)
	if gone && s.Sessions.Close(opened.ID) {
		return refusal.New("client_gone", "the caller went away before it got its session; the event is waiting again")
	}
	return nil
}

// serve serves the listener of a session until its end, and returns its URL for clients.
func (s *Server) serve(opened *session.Session, l *listener, ca *intercept.CA) string {
	go func() {
		defer l.Close()
		if err := s.proxy.Load().ServeSession(opened.Life(), l, opened.ID, ca); err != nil {
			s.Log.Error("the listener of a session has failed", zap.String("session", opened.ID), zap.Error(err))
		}
	}()
	return fmt.Sprintf("http://127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
}

func (s *Server) finish(ctx context.Context, closed *session.Session) error {
	if closed.Learning {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	_, err := s.Triggers.Done(ctx, closed.Event.ID, closed.Runtime)
	return err
}

// Abandoned closes the session of a run whose launcher has ended without closing it.
func (s *Server) Abandoned(ctx context.Context, run *observe.Run) {
	opened := s.Sessions.CloseRun(run)
	if opened == nil {
		return
	}
	if err := s.finish(ctx, opened); err != nil {
		s.Log.Error("the event of an abandoned session is not done", zap.String("event", opened.Event.ID),
			zap.Error(err))
	}
}

// closeSession closes a session, whose event then justifies no further post.
func (s *Server) closeSession(w http.ResponseWriter, r *http.Request) {
	opened, open := s.Sessions.Get(r.PathValue("id"))
	if !open || !s.Sessions.Close(opened.ID) {
		problem.Write(w, refusal.New("not_found", "no session %.80q is open", r.PathValue("id")))
		return
	}
	if err := s.finish(r.Context(), opened); err != nil {
		problem.Write(w, err) // the session is closed nevertheless
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
