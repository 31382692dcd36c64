package console

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// codeLife and sessionLife bound how long a one-time code and a browser's session are good.
const codeLife, sessionLife = 10 * time.Minute, 12 * time.Hour

// maxLogins bounds the codes, and the sessions. The one that ends first makes room.
const maxLogins = 64

// tickets are random texts with their ends. Only their hashes are kept, so that finding one takes as long as not
// finding it.
type tickets map[[sha256.Size]byte]time.Time

func (t *tickets) make(until, now time.Time) string {
	if *t == nil {
		*t = make(tickets)
	}
	var first [sha256.Size]byte
	for hash, end := range *t {
		if !now.Before(end) {
			delete(*t, hash)
		} else if found, ok := (*t)[first]; !ok || end.Before(found) {
			first = hash
		}
	}
	if len(*t) >= maxLogins {
		delete(*t, first)
	}
	text := rand.Text()
	(*t)[sha256.Sum256([]byte(text))] = until
	return text
}

func (t tickets) knows(text string, now time.Time) bool {
	return now.Before(t[sha256.Sum256([]byte(text))])
}

// logins has the unused one-time codes, and the sessions of browsers.
type logins struct {
	mu              sync.Mutex // guards both
	codes, sessions tickets
}

func (l *logins) code(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.codes.make(now.Add(codeLife), now)
}

// exchange uses up a code and returns the name of a new session.
func (l *logins) exchange(code string, now time.Time) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.codes.knows(code, now) {
		return "", false
	}
	delete(l.codes, sha256.Sum256([]byte(code)))
	return l.sessions.make(now.Add(sessionLife), now), true
}

func (l *logins) knows(session string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions.knows(session, now)
}

// LoginURL returns a URL that logs in one browser, once, within ten minutes.
func (s *Server) LoginURL() string {
	return s.URL.JoinPath("login").String() + "?" + url.Values{"code": {s.logins.code(s.Now())}}.Encode()
}

// cookie returns the name of the session's cookie. The prefix makes browsers refuse it without TLS.
func (s *Server) cookie() string {
	if s.URL.Scheme == "https" {
		return "__Host-console"
	}
	return "console"
}

func (s *Server) setCookie(w http.ResponseWriter, session string) {
	http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: session, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: s.URL.Scheme == "https", MaxAge: int(sessionLife.Seconds())})
}

// showLogin shows the form that uses a code. A GET uses none up: programs that look at links for people make those.
func (s *Server) showLogin(w http.ResponseWriter, r *http.Request) {
	view{"login", "Log in", struct{ Code string }{r.URL.Query().Get("code")}}.write(w, http.StatusOK)
}

const maxForm = 4 << 10 // bytes

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	session, ok := s.logins.exchange(r.PostFormValue("code"), s.Now())
	if !ok {
		fail(w, refusal.New("console_refused", "the code is unknown, used or older than %s", codeLife))
		return
	}
	s.setCookie(w, session)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
