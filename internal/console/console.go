// Package console shows operators what the mediator does, as pages for a browser on the same machine. The pages only
// read: they get everything from the processes' APIs for operators.
//
//	console.go   the handler: who may ask what, and the headers of every answer
//	login.go     one-time codes and the sessions of browsers
//	oidc.go      the login at an OpenID provider
//	serve.go     the listeners, and the confinement of the process
//	source.go    questions to the processes
//	live.go      news of ended calls for open pages
//	view.go      the frame of a page, and what pages are made of
//	parts.go     the parts that several pages have
//	now.go, feed.go, post.go, sessions.go, agents.go, keys.go, manifest.go   a page each
//	closest.go   the rule that is closest to a refused call, and what differs
//	chart.go     charts as SVG
package console

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
)

// Options configure a console. All fields are required unless they say otherwise.
type Options struct {
	// Admin is the sidecar's endpoint for operators, in the form of [admin.ParseEndpoint].
	Admin string
	// Processes are the endpoints of all processes that have keys, the sidecar among them.
	Processes []string
	// Node is the node's internal endpoint; empty without a node.
	Node string
	// Trust names the public files that verify the trust bundle; without a bundle less is known of the keys.
	Trust config.Trust
	// Judge verifies a record as mediator verify does; nil verifies none.
	Judge func(context.Context, admin.Record) ([]Result, error)
	// URL is the address of the console as browsers see it. With a Team it begins with https.
	URL *url.URL
	// Team admits members of an OpenID provider's groups. If it is nil, only one-time codes open a session.
	Team *config.Console
	Now  func() time.Time
	Log  *zap.Logger
}

// Result is a single result of a verification. It says nothing about the others.
type Result struct {
	Name  string // such as Authentic
	State string // yes, no or unknown
	Says  string
}

// Server answers browsers.
type Server struct {
	Options
	provider *provider   // nil without a Team
	failures *zap.Logger // of logins: strangers cause any number
	codes    tickets     // one-time, unused
	browsers tickets     // the sessions of browsers
	live     live
	mux      *http.ServeMux
}

type page func(*Server, *http.Request) (view, error)

// routes are the pages, and who may see them. Besides them there are /login, /logout, /live and the files in static.
var routes = map[string]struct {
	page page
	from role
}{
	"/{$}":           {(*Server).now, summaries},
	"/feed":          {(*Server).feed, everything},
	"/posts/{id}":    {(*Server).post, everything},
	"/sessions":      {(*Server).sessions, everything},
	"/sessions/{id}": {(*Server).session, everything},
	"/agents":        {(*Server).agents, summaries},
	"/keys":          {(*Server).keys, summaries},
	"/manifest":      {(*Server).manifest, summaries},
}

//go:embed static
var static embed.FS

// New makes a console.
func New(o Options) *Server {
	s := &Server{Options: o, failures: flood.Logger(o.Log), mux: http.NewServeMux()}
	s.live.ended = endedAt(o.Admin)
	files, _ := fs.Sub(static, "static") // the name is valid
	public := http.StripPrefix("/static/", http.FileServerFS(files))
	s.mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		public.ServeHTTP(w, r)
	})
	s.mux.HandleFunc("GET /login", s.showLogin)
	s.mux.HandleFunc("POST /login", s.login)
	s.mux.HandleFunc("POST /logout", s.logout)
	if o.Team != nil {
		s.provider = newProvider(o.Team, o.URL, o.Now)
		s.mux.HandleFunc("GET /login/provider", s.askProvider)
		s.mux.HandleFunc("GET "+callback, s.believeProvider)
	}
	s.mux.HandleFunc("GET /live", s.loggedIn(summaries, func(w http.ResponseWriter, r *http.Request) {
		cookie, _ := r.Cookie(s.cookie()) // of the session
		s.live.serve(w, r, cookie.Value)
	}))
	for path, route := range routes {
		s.mux.HandleFunc("GET "+path, s.loggedIn(route.from, s.show(route.page)))
	}
	s.mux.HandleFunc("/", s.loggedIn(summaries, func(w http.ResponseWriter, r *http.Request) {
		fail(w, refusal.New("not_found", "the console has no page %.100q for %.20s", r.URL.Path, r.Method))
	}))
	return s
}

// contentPolicy permits what the pages need, which is all their own.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP refuses requests that name another host, as those of a page do whose name was rebound to this address, and
// requests that change something from another page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	origin := r.Header.Get("Origin")
	if r.Host != s.URL.Host || origin != "" && origin != s.URL.Scheme+"://"+s.URL.Host ||
		r.Method == http.MethodPost && origin == "" {
		problem.Write(w, refusal.New("console_refused",
			"this is the console at %s://%s; the request is for host %.100q, from origin %.100q",
			s.URL.Scheme, s.URL.Host, r.Host, origin))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// answerTime bounds a request and its answer. Pages that stay open set it anew.
const answerTime = time.Minute

// loggedIn sends a browser without a session to the login, and refuses one whose role is below from.
func (s *Server) loggedIn(from role, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		may := nothing
		if cookie, err := r.Cookie(s.cookie()); err == nil {
			may = s.browsers.role(cookie.Value, s.Now(), false)
		}
		switch {
		case may == nothing && s.provider != nil:
			http.Redirect(w, r, string(link("/login", "to", r.URL.RequestURI())), http.StatusSeeOther)
		case may == nothing:
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		case may < from:
			fail(w, refusal.New("console_denied", "your groups may see only the pages without calls"))
		default:
			next(w, r)
		}
	}
}

func (s *Server) show(page page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := page(s, r)
		if err != nil && refusal.CodeOf(err) == "" { // a process did not answer: what it refuses has a code
			err = refusal.New("process_unavailable", "%v", err)
		}
		if err != nil {
			fail(w, err)
			return
		}
		v.write(w, http.StatusOK)
	}
}

func fail(w http.ResponseWriter, err error) {
	d := problem.DetailsOf(err)
	view{"", d.Title, Group{H1(text(d.Title)), P(text(d.Detail)), P(code(d.Code)),
		P(A(to("/"), Text("Now")), Text(" · "), A(to("/login"), Text("Log in")))}}.write(w, d.Status)
}
