package console

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/url"
	"sync"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/refusal"
)

// codeLife and sessionLife bound how long a one-time code and a browser's session are good.
const codeLife, sessionLife = 10 * time.Minute, 12 * time.Hour

// maxLogins bounds the codes, and the sessions. The one that ends first makes room.
const maxLogins = 1024

// role is what a session may see.
type role int

const (
	nothing   role = iota
	summaries      // the pages without calls
	everything
)

// ticket says what the holder of a random text may see, and until when.
type ticket struct {
	role role
	end  time.Time
}

// tickets have only the hashes of the texts, so that finding one takes as long as not finding it. They are safe for
// concurrent use.
type tickets struct {
	mu  sync.Mutex // guards all
	all map[[sha256.Size]byte]ticket
}

// issue returns the text of a ticket for a role that ends after life.
func (t *tickets) issue(to role, life time.Duration, now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = make(map[[sha256.Size]byte]ticket)
	}
	var first [sha256.Size]byte
	for hash, one := range t.all {
		if !now.Before(one.end) {
			delete(t.all, hash)
		} else if found, ok := t.all[first]; !ok || one.end.Before(found.end) {
			first = hash
		}
	}
	if len(t.all) >= maxLogins {
		delete(t.all, first)
	}
	text := rand.Text()
	t.all[sha256.Sum256([]byte(text))] = ticket{to, now.Add(life)}
	return text
}

// role returns the role of a text, or nothing if the text is unknown or has ended. With used, it forgets the text.
func (t *tickets) role(text string, now time.Time, used bool) role {
	t.mu.Lock()
	defer t.mu.Unlock()
	hash := sha256.Sum256([]byte(text))
	one := t.all[hash]
	if used {
		delete(t.all, hash)
	}
	if now.Before(one.end) {
		return one.role
	}
	return nothing
}

// LoginURL returns a URL that logs in one browser, once, within ten minutes.
func (s *Server) LoginURL() string {
	code := s.codes.issue(everything, codeLife, s.Now())
	return s.URL.JoinPath("login").String() + "?" + url.Values{"code": {code}}.Encode()
}

func (s *Server) cookie() string { return s.prefix() + "console" }

// prefix makes browsers refuse a cookie without TLS, or from another host of the domain.
func (s *Server) prefix() string {
	if s.URL.Scheme == "https" {
		return "__Host-"
	}
	return ""
}

// setCookie sets a cookie, or removes it after a life of zero. A strict one is sent only from the console's own pages.
func (s *Server) setCookie(w http.ResponseWriter, name, value string, life time.Duration, site http.SameSite) {
	seconds := int(life.Seconds())
	if seconds == 0 {
		seconds = -1 // zero would not be written
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, SameSite: site,
		Secure: s.URL.Scheme == "https", MaxAge: seconds})
}

// showLogin shows the form that uses a code. A GET uses none up: programs that look at links for people make those.
func (s *Server) showLogin(w http.ResponseWriter, r *http.Request) {
	form := func(content ...Node) Node { return Form(Method("post"), Action("/login"), Group(content)) }
	button := func(more ...Node) Node { return Button(Class("primary"), Group(more), Text("Open the console")) }
	main := Group{Class("login"), H1(Text("The mediator's console"))}
	if code := r.URL.Query().Get("code"); code != "" {
		main = append(main, P(Text("This link logs in one browser, once.")),
			form(Input(Type("hidden"), Name("code"), Value(code)), button(AutoFocus())))
	} else {
		if s.provider != nil {
			main = append(main, P(A(to(link("/login/provider", "to", r.URL.Query().Get("to"))),
				say("Log in at %s", s.provider.Issuer))))
		}
		main = append(main, P(Code(Text("mediator console")),
			Text(" prints a link that logs in one browser, once. Open it, or paste its code.")),
			form(Label(Text("Code "), Input(Name("code"), Required(), AutoComplete("off"),
				Attr("spellcheck", "false"))), space, button()))
	}
	view{"/login", "Log in", Div(main)}.write(w, http.StatusOK)
}

const (
	maxForm  = 4 << 10 // bytes
	formTime = 10 * time.Second
)

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTime)) // strangers can send forms
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if s.codes.role(r.PostFormValue("code"), s.Now(), true) == nothing {
		fail(w, refusal.New("console_refused", "the code is unknown, used or older than %s", codeLife))
		return
	}
	session := s.browsers.issue(everything, sessionLife, s.Now())
	s.setCookie(w, s.cookie(), session, sessionLife, http.SameSiteStrictMode)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// logout ends the browser's session here. The OpenID provider may still know the user.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(s.cookie()); err == nil {
		s.browsers.role(cookie.Value, s.Now(), true)
	}
	s.setCookie(w, s.cookie(), "", 0, http.SameSiteStrictMode)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
