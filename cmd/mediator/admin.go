package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/trigger"
)

// adminServer is the operators' side of the sidecar, out of the agent's reach: sessions, records, metrics, health.
type adminServer struct {
	*process
	sessions *proxy.Sessions
	record   ledger.Store
	triggers *trigger.Client
	runtime  string
	ca       []byte
	proxy    string // address of the proxy port
	caFile   string
	agent    *uint32 // the agent's user
	watch    *observe.Watch
	peers    []peer
	ready    atomic.Bool

	deployment atomic.Pointer[deploymentWatch] // nil until the manifest is there
}

// sessionAsked asks for a session.
type sessionAsked struct {
	Event string `json:"event"` // empty takes the next one that waits
	// Launcher is whether the process that asks will start the agent, as its child, and be a subreaper to what the agent leaves behind.
	// Its processes are looked at then; which process it is the kernel says.
	Launcher bool `json:"launcher,omitempty"`
}

// sessionOpened is what mediator run learns of the session that it asked for.
type sessionOpened struct {
	Session  string `json:"session"`
	Event    string `json:"event"`
	ProxyURL string `json:"proxyUrl"` // with the session's credentials
	CAFile   string `json:"caFile"`
	// Agent is the user that the agent is to run as, where the configuration names one.
	Agent *uint32 `json:"agent,omitempty"`
}

func (a *adminServer) handler() http.Handler {
	mux := a.mux(a.ready.Load)
	mux.HandleFunc("GET /v1/controls", a.controls)
	mux.HandleFunc("GET /v1/confinement", a.confinement)
	mux.HandleFunc("POST /v1/sessions", a.openSession)
	mux.HandleFunc("DELETE /v1/sessions/{id}", a.closeSession)
	mux.HandleFunc("GET /v1/posts", a.listPosts)
	mux.HandleFunc("GET /v1/posts/{id}", func(w http.ResponseWriter, r *http.Request) {
		p, err := a.record.Get(r.Context(), r.PathValue("id"))
		if errors.Is(err, ledger.ErrNotFound) {
			err = refusal.New("post_unknown", "no record has an id that begins with %.80q", r.PathValue("id"))
		}
		wire.Write(w, shownPost{p, assess(p)}, err)
	})
	return mux
}

// controls looks at the deployment and answers with each control of its manifest.
func (a *adminServer) controls(w http.ResponseWriter, r *http.Request) {
	d := a.deployment.Load()
	if d == nil {
		problem.Write(w, refusal.New("not_ready", "the sidecar waits for its manifest or its trust bundle"))
		return
	}
	d.look(r.Context())
	wire.Write(w, *d.seen.Load(), nil)
}

// openSession claims the named event, or the next one where none is named, and opens a session for it.
func (a *adminServer) openSession(w http.ResponseWriter, r *http.Request) {
	var ask sessionAsked
	if err := wire.Read(w, r, &ask); err != nil {
		problem.Write(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	event, err := a.triggers.Claim(ctx, trigger.Claim{EventID: ask.Event, Runtime: a.runtime})
	if err != nil {
		problem.Write(w, err)
		return
	}
	var run *observe.Run
	if ask.Launcher {
		peer := peerOfRequest(r)
		run = a.watch.Begin(event.ID, int(peer.Pid), peer.Uid)
	}
	s, password, err := a.sessions.Open(event, a.runtime, run)
	if err != nil {
		run.End()
		if _, back := a.triggers.Release(ctx, event.ID, a.runtime); back != nil {
			err = errors.Join(err, back)
		}
		problem.Write(w, err)
		return
	}
	wire.Write(w, sessionOpened{Session: s.ID, Event: event.ID, ProxyURL: "http://" + s.ID + ":" + password + "@" + a.proxy, CAFile: a.caFile, Agent: a.agent}, nil)
}

// closeSession ends a session; its event stands behind nothing any more.
func (a *adminServer) closeSession(w http.ResponseWriter, r *http.Request) {
	s, open := a.sessions.Get(r.PathValue("id"))
	if !open || !a.sessions.Close(s.ID) {
		problem.Write(w, refusal.New("session_unknown", "no session %.80q is open", r.PathValue("id")))
		return
	}
	if _, err := a.triggers.Done(r.Context(), s.Event.ID, s.Runtime); err != nil {
		problem.Write(w, err) // the session has ended all the same
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *adminServer) listPosts(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := 50
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			problem.Write(w, refusal.New("query_malformed", "limit=%.20q is no number", s))
			return
		}
		limit = n
	}
	if err := checkPostQuery(limit, q.Get("state"), q.Get("flow")); err != nil {
		problem.Write(w, err)
		return
	}
	posts, err := a.record.List(r.Context(), ledger.Query{Limit: limit, Before: q.Get("before"), State: ledger.State(q.Get("state")), Session: q.Get("session"), Flow: q.Get("flow")})
	wire.Write(w, posts, err)
}
