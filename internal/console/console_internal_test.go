package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/test/check"
)

// asking is a console without a sidecar, and a browser.
type asking struct {
	*Server
	now    time.Time
	cookie string
	logged *observer.ObservedLogs
}

func newAsking(t *testing.T, at string) *asking {
	t.Helper()
	return newTeam(t, at, nil)
}

func newTeam(t *testing.T, at string, team *config.Console) *asking {
	t.Helper()
	u, err := url.Parse(at)
	check.Must(t, err)
	core, logged := observer.New(zap.WarnLevel)
	a := &asking{now: time.Unix(1_800_000_000, 0), logged: logged}
	a.Server = New(Options{Admin: "unix:/nowhere/admin.sock", URL: u, Team: team, Log: zap.New(core),
		Now: func() time.Time { return a.now }})
	return a
}

func (a *asking) ask(method, path, body string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = a.URL.Host
	if a.cookie != "" {
		r.Header.Set("Cookie", a.cookie)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", a.URL.Scheme+"://"+a.URL.Host)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Result()
}

// code makes a one-time code.
func (a *asking) code(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(a.LoginURL())
	check.Must(t, err)
	return "code=" + u.Query().Get("code")
}

func (a *asking) enter(t *testing.T) {
	t.Helper()
	resp := a.ask(http.MethodPost, "/login", a.code(t))
	if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	a.cookie = resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}

// TestRoutes walks all pages: each only reads, and needs a session.
func TestRoutes(t *testing.T) {
	t.Parallel()
	a := newAsking(t, "http://a.localhost:1")
	paths := []string{"/live", "/nothing"}
	for path := range routes {
		paths = append(paths, strings.NewReplacer("{$}", "", "{id}", "some").Replace(path))
	}
	for _, path := range paths {
		if resp := a.ask(http.MethodGet, path, ""); resp.Header.Get("Location") != "/login" {
			t.Errorf("%s without a session: %d", path, resp.StatusCode)
		}
	}
	a.enter(t)
	for _, path := range paths {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
			http.MethodOptions} {
			if resp := a.ask(method, path, ""); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, path, resp.StatusCode)
			}
		}
	}
	for _, path := range []string{"/posts/some", "/posts/%2e%2e", "/sessions", "/feed", "/sessions/some"} {
		if resp := a.ask(http.MethodGet, path, ""); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s without a sidecar: %d", path, resp.StatusCode)
		}
	}
	if resp := a.ask(http.MethodGet, "/", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("the first page without a sidecar: %d", resp.StatusCode)
	}
	if resp := a.ask(http.MethodPost, "/logout", ""); resp.Cookies()[0].MaxAge >= 0 {
		t.Error("the browser keeps the cookie")
	}
	if resp := a.ask(http.MethodGet, "/", ""); resp.Header.Get("Location") != "/login" {
		t.Errorf("after the logout: %d", resp.StatusCode)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	a := newAsking(t, "http://a.localhost:1")
	used := a.code(t)
	for range 2 { // looking at the link uses nothing up
		if resp := a.ask(http.MethodGet, "/login?"+used, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	resp := a.ask(http.MethodPost, "/login", used)
	check.WantEqual(t, resp.StatusCode, http.StatusSeeOther)
	c := resp.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" {
		t.Errorf("the cookie is %v", c)
	}
	late := a.code(t)
	a.now = a.now.Add(codeLife)
	for name, code := range map[string]string{"used": used, "late": late, "none": "", "unknown": "code=AAAA"} {
		resp := a.ask(http.MethodPost, "/login", code)
		if resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) > 0 {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	a.enter(t)
	a.now = a.now.Add(sessionLife - time.Second)
	check.WantEqual(t, a.ask(http.MethodGet, "/nothing", "").StatusCode, http.StatusNotFound)
	a.now = a.now.Add(time.Second)
	check.WantEqual(t, a.ask(http.MethodGet, "/nothing", "").StatusCode, http.StatusSeeOther)

	secure := newAsking(t, "https://console.test")
	c = secure.ask(http.MethodPost, "/login", secure.code(t)).Cookies()[0]
	if !c.Secure || c.Name != "__Host-console" {
		t.Errorf("with TLS the cookie is %v", c)
	}
}

func TestManyCodes(t *testing.T) {
	t.Parallel()
	a := newAsking(t, "http://a.localhost:1")
	first := a.code(t)
	a.now = a.now.Add(time.Second)
	for range maxLogins {
		a.code(t)
	}
	check.WantEqual(t, len(a.codes.all), maxLogins)
	check.WantEqual(t, a.ask(http.MethodPost, "/login", first).StatusCode, http.StatusForbidden)
	a.enter(t)
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	a := newAsking(t, "http://a.localhost:1")
	for name, ask := range map[string]func() *http.Response{
		"another host": func() *http.Response {
			return a.ask(http.MethodGet, "/login", "", "Host",
				"rebound.example:1")
		},
		"an address": func() *http.Response { return a.ask(http.MethodGet, "/login", "", "Host", "127.0.0.1:1") },
		"another origin": func() *http.Response {
			return a.ask(http.MethodPost, "/login", a.code(t), "Origin", "http://b.localhost:1")
		},
		"no origin": func() *http.Response { return a.ask(http.MethodPost, "/login", a.code(t), "Origin", "") },
	} {
		if resp := ask(); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	resp := a.ask(http.MethodGet, "/login", "")
	if got := resp.Header.Get("Content-Security-Policy"); got != contentPolicy || strings.Contains(got, "unsafe") {
		t.Errorf("the policy is %q", got)
	}
}

// TestMarkup: pages are made only of elements and attributes with constant names, of escaped texts, and of URLs whose
// scheme no text can choose.
func TestMarkup(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	check.Must(t, err)
	found := make(map[string]int)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(name)
		check.Must(t, err)
		for _, use := range regexp.MustCompile(`\b(Rawf?|NodeFunc|Style(El|Attr)?|IFrame|Object|Embed)\(.*|`+
			`\b(Href|Src|Action|FormAction|El|Attr|Data|Aria|place)\([^"].*|\bScript\([^S].*`).FindAllString(string(raw), -1) {
			found[strings.Trim(use, "{}() ")]++
		}
	}
	check.WantEqual(t, found, map[string]int{
		"Href(string(at":              1, // to
		"place(path":                  1, // link
		`place(path + "?" + v.Encode`: 1,
		`place(page)), Text("Open the console")))}}.write(w, http.StatusOK`: 1, // within
		"Attr(name, strconv.FormatFloat(v, 'f', 1, 64":                      1, // figure
	})
}

func TestClosest(t *testing.T) {
	t.Parallel()
	rules := []own.Rule{
		{Name: "reads", Kind: own.Egress, URL: "https://api.test/**", Methods: []string{"GET", "HEAD"}},
		{Name: "comment", Kind: own.Post, URL: "https://api.test/posts/{id}/comments", Methods: []string{"POST"}},
		{Name: "tools", Kind: own.Post, URL: "https://api.test/mcp", Methods: []string{"POST"},
			Tools: []string{"search"}},
	}
	for name, tt := range map[string]struct {
		call    ledger.Record
		rule    string
		differs []string
	}{
		"another method": {ledger.Record{Method: "DELETE", Path: "/posts/1"}, "reads",
			[]string{"method: the rule has GET, HEAD, the call DELETE"}},
		"another path": {ledger.Record{Method: "POST", Path: "/posts/1/likes"}, "reads",
			[]string{"method: the rule has GET, HEAD, the call POST"}},
		"another tool": {ledger.Record{Method: "POST", Path: "/mcp", MCP: &ledger.MCPMessage{Method: "tools/call",
			Tool: "delete"}}, "tools", []string{"tool: the rule has search, the call delete"}},
		"refused later": {ledger.Record{Method: "POST", Path: "/posts/1/comments", Rule: "comment"}, "comment", nil},
		"another scheme": {ledger.Record{Method: "GET", Path: "/", Scheme: "http", Host: "api.test:80"}, "reads",
			[]string{"scheme"}},
		"an unknown host": {ledger.Record{Method: "GET", Path: "/", Host: "other.test:443"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.call.Scheme == "" {
				tt.call.Scheme = "https"
			}
			if tt.call.Host == "" {
				tt.call.Host = "api.test:443"
			}
			got := closestTo(tt.call, rules)
			if got == nil {
				check.WantEqual(t, "", tt.rule)
				return
			}
			check.WantEqual(t, got.Rule.Name, tt.rule)
			if len(got.Differs) != len(tt.differs) ||
				!slices.ContainsFunc(append(got.Differs, ""), func(s string) bool {
					return strings.HasPrefix(s, strings.Join(tt.differs, ""))
				}) {
				t.Errorf("differs: %q", got.Differs)
			}
		})
	}
}

func TestProposal(t *testing.T) {
	t.Parallel()
	call := ledger.Record{Scheme: "https", Host: "api.test:443", Method: "POST", Path: "/posts/7/likes", Session: "s",
		State: ledger.StateRefused, Code: "action_unmatched", Started: time.Now()}
	if got := proposal(call); !strings.Contains(got, "https://api.test/posts/{id}/likes") {
		t.Errorf("got %q", got)
	}
	call.Code = "event_closed"
	check.WantEqual(t, proposal(call), "")
}

// TestRotations: a version begins where it was made and ends with its certificate, and its use lies within.
func TestRotations(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	at := func(h int) *time.Time { t := now.Add(time.Duration(h) * time.Hour); return &t }
	c := rotations([]keyring.Version{
		{KeyID: "k:v1", State: keyring.Retired, Created: at(-20), Until: at(-5),
			Use: &keyring.Use{First: *at(-19), Last: *at(-9), Posts: 3}},
		{KeyID: "k:v2", State: keyring.Certified, Created: at(-10), Until: at(20)},
	}, now)
	var classes []string
	for _, b := range c.Bars {
		classes = append(classes, b.Class)
		if b.X < 40 || b.X+b.Width > float64(c.Width) || b.Height <= 0 {
			t.Errorf("%+v is not in the chart", b)
		}
	}
	check.WantEqual(t, classes, []string{"ended", "used", "certified", "today"})
	if first, second := c.Bars[0], c.Bars[2]; first.X >= second.X || c.Bars[3].X <= second.X {
		t.Errorf("%+v", c.Bars)
	}
}

// TestListenLoopback: no other program can listen where a browser looks for the console's name.
func TestListenLoopback(t *testing.T) {
	t.Parallel()
	all, err := listenLoopback("127.0.0.1:0")
	check.Must(t, err)
	for _, l := range all {
		check.Must(t, l.Close())
	}
	taken, err := net.Listen("tcp", "[::1]:0")
	check.Must(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	check.Must(t, err)
	_, err = listenLoopback("127.0.0.1:" + port)
	check.WantCode(t, err, "listen_failed", "address already in use")
	free, err := net.Listen("tcp", "127.0.0.1:"+port)
	check.Must(t, err) // the failed one listens no more
	check.Must(t, free.Close())
	_, err = listenLoopback("192.0.2.1:80")
	check.WantCode(t, err, "listen_failed", "which \"192.0.2.1:80\" is not")
}

// TestSlowForms: strangers who send forms slowly keep nobody out, not even at their own address.
func TestSlowForms(t *testing.T) {
	t.Parallel()
	a := newAsking(t, "http://a.localhost:1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- endpoint.Serve(ctx, l, a.Server, browserLimits, time.Second, a.Log) }()
	t.Cleanup(func() {
		cancel()
		check.Must(t, <-served)
	})
	ask := func(request string) (net.Conn, string) {
		c, err := net.Dial("tcp", l.Addr().String())
		check.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		check.Must(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = fmt.Fprintf(c, request, a.URL.Host)
		said, _ := bufio.NewReader(c).ReadString('\r') // nothing if it is closed
		return c, said
	}
	var slow []net.Conn
	for range browserLimits.PerAddress {
		c, said := ask("POST /login HTTP/1.1\r\nHost: %[1]s\r\nOrigin: http://%[1]s\r\nContent-Length: 9\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n")
		check.WantEqual(t, said, "HTTP/1.1 100 Continue\r") // the form is being read
		slow = append(slow, c)
	}
	said := ""
	for began := time.Now(); said != "HTTP/1.1 200 OK\r" && time.Since(began) < time.Minute; {
		time.Sleep(50 * time.Millisecond)
		_, said = ask("GET /login HTTP/1.1\r\nHost: %s\r\n\r\n")
	}
	left, _ := io.ReadAll(slow[0])
	if said != "HTTP/1.1 200 OK\r" || strings.Contains(string(left), "403") {
		t.Errorf("%q, and the oldest form had its whole time: %q", said, left)
	}
}

// pipe is a listener for a connection within the process.
type pipe struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipe) Close() error {
	close(p.ended)
	return nil
}

func (p pipe) Addr() net.Addr { return &net.TCPAddr{} }

// TestLivePages: one reader's pages leave places to the others'.
func TestLivePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, "http://a.localhost:1")
		waiting, over := 0, make(chan struct{})
		a.live.ended = func(context.Context, func() error) error {
			waiting++
			<-over
			return errors.New("the sidecar ended")
		}
		for range 2 {
			a.enter(t)
			for range maxPages {
				go a.ask(http.MethodGet, "/live", "")
				synctest.Wait()
			}
		}
		check.WantEqual(t, waiting, maxPages/2+maxPages/4)
		close(over)
	})
}

// TestLivePageStays: a page gets news on one connection for longer than other requests may take.
func TestLivePageStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, "http://a.localhost:1")
		a.enter(t)
		a.live.ended = func(ctx context.Context, _ func() error) error { return every.Sleep(ctx, 3*answerTime) }
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		l := pipe{make(chan net.Conn), make(chan struct{})}
		go func() { served <- endpoint.Serve(ctx, l, a.Server, browserLimits, time.Second, a.Log) }()
		browser, server := net.Pipe()
		l.conns <- server
		_, err := fmt.Fprintf(browser, "GET /live HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n", a.URL.Host, a.cookie)
		check.Must(t, err)
		said := bufio.NewScanner(browser)
		for wanted := range 3 {
			want := []string{"retry: 3000", "event: changed", "event: changed"}[wanted]
			for said.Scan() && said.Text() != want {
			}
			check.WantEqual(t, said.Text(), want)
		}
		cancel()
		check.Must(t, <-served, browser.Close())
	})
}
