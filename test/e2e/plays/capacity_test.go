package plays

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// Each of many calls at once succeeds, or is refused with a time to try again. Each post arrives once and has one
// record.
func TestThousandAgents(t *testing.T) {
	t.Parallel()
	agents := kit.Size(50, 1000)
	s := newAccounted(t, strings.NewReplacer("timeouts: {forward: 5s, responseHeader: 5s}",
		"timeouts: {step: 10m, forward: 10m, responseHeader: 10m}", "limits: {", "limits: {calls: 64, ").Replace(soakRules))
	all := make([]*soakAgent, agents)
	var entering errgroup.Group
	entering.SetLimit(16)
	for i := range all {
		entering.Go(func() error {
			all[i] = s.newAgent(t, i)
			all[i].connects = true // on a busy machine a handshake can time out
			if !all[i].enter(t.Context()) {
				return errors.New("an agent gets no session")
			}
			all[i].call(http.MethodGet, "reads", nil, 0) // which connects
			return nil
		})
	}
	check.Must(t, entering.Wait())
	before := len(s.answers)
	var calling sync.WaitGroup
	for _, a := range all {
		calling.Go(func() {
			a.call(http.MethodGet, "reads", nil, 0)
			a.call(http.MethodPost, "posts", a.content(), 0)
			a.call(http.MethodPut, "uploads", bytes.NewReader(make([]byte, 1000)), 0)
		})
	}
	calling.Wait()
	if got := len(s.answers) - before; got != 3*agents {
		t.Errorf("%d of %d calls were answered", got, 3*agents)
	}
	for _, a := range s.answers {
		if a.status/100 != 2 && a.status != http.StatusServiceUnavailable { // which call has demanded a Retry-After of
			t.Errorf("%s was answered %d %s", a.path, a.status, a.code)
		}
	}
	for _, a := range all {
		a.client.CloseIdleConnections()
	}
	s.end(t)
	total := s.agree(t)
	if total.sent == 0 {
		t.Error("no post was made")
	}
	t.Log(s.outcomes(total))
}

const capacityRules = `
actions:
  - name: file
    match: {url: "https://PLAIN/files", methods: [POST]}
    subject: agent:worker-1
    action: create_file
    content: raw
    maxBody: 33554432
  - name: text
    match: {url: "https://PLAIN/texts", methods: [POST]}
    subject: agent:worker-1
    action: create_text
    maxBody: 8388608
egress:
  - name: read
    match: {url: "https://PLAIN/**", methods: [GET]}
  - name: upload
    match: {url: "https://PLAIN/**", methods: [PUT]}
` + kit.Upstream + "confine: {write: [failpoint]}\n"

type capacityRig struct {
	*crashRig
	roots   *x509.CertPool
	session *url.URL // the proxy, with the session's credentials
	resumed tls.ClientSessionCache
}

func newCapacityRig(t *testing.T, limits string, upstream http.HandlerFunc) *capacityRig {
	t.Helper()
	c := &capacityRig{crashRig: prepareCrashRig(t, kit.Program(t), ""), resumed: tls.NewLRUClientSessionCache(1)}
	rules := strings.NewReplacer("PLAIN", c.Plain()).Replace(capacityRules + limits)
	config := string(kit.Read(t, c.In(devstack.SidecarFile)))
	before, _, _ := strings.Cut(config, "\nactions:\n")
	kit.Write(t, c.In(devstack.SidecarFile), before+rules)
	kit.Edit(t, c.In(devstack.TriggerFile), "maxAge: 10m", "maxAge: 1h\nbudget: 1000000")
	c.holdWith(func(req *http.Request, w http.ResponseWriter) { upstream(w, req) })
	c.startUntilEnd(t)
	s := c.enter(t).Session
	c.roots = kit.TLSConfig(t, s.CAFile).RootCAs
	var err error
	c.session, err = url.Parse(s.ProxyURL)
	check.Must(t, err)
	return c
}

func (c *capacityRig) resources(t *testing.T) sample {
	t.Helper()
	got, err := measureOf(c.Stack.Socket("serve"))
	check.Must(t, err)
	return got
}

// tunnel makes TLS without ML-KEM, which the race detector makes dearer than all else that an idle tunnel costs.
func (c *capacityRig) tunnel(ctx context.Context) (*tls.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.session.Host)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\nProxy-Authorization: Basic %s\r\n\r\n", c.Plain(),
		base64.StdEncoding.EncodeToString([]byte(c.session.User.String())))
	const established = "HTTP/1.1 200 Connection Established\r\n\r\n"
	answer := make([]byte, len(established))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != established {
		return nil, errors.Join(conn.Close(), fmt.Errorf("CONNECT was answered %q: %w", answer, err))
	}
	secure := tls.Client(conn,
		&tls.Config{RootCAs: c.roots, ServerName: trial.PlainHost, MinVersion: tls.VersionTLS12,
			CurvePreferences: []tls.CurveID{tls.X25519}, ClientSessionCache: c.resumed})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

func (c *capacityRig) ask(conn net.Conn) (string, error) {
	if _, err := fmt.Fprintf(conn, "GET /x HTTP/1.1\r\nHost: %s\r\n\r\n", c.Plain()); err != nil {
		return "", err
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

func (c *capacityRig) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyURL(c.session),
			TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}}}
}

func openFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	check.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur >= n {
		return
	}
	want := syscall.Rlimit{Cur: n, Max: max(n, limit.Max)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &want); err != nil {
		t.Fatalf(
			"this test needs %d open files and may have %d (%v): raise the hard limit (ulimit -Hn), or run the tests as root", n,
			limit.Max, err)
	}
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	idle := kit.Size(300, 10_000)
	openFiles(t, uint64(idle)+2000)
	c := newCapacityRig(t,
		"limits: {connections: 22000, tunnels: 21000, session: {perSecond: 100000}, host: {perSecond: 100000}}\n",
		func(http.ResponseWriter, *http.Request) {})
	conns := make([]*tls.Conn, idle)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.NetConn().Close()
			}
		}
	}()
	var opening errgroup.Group
	opening.SetLimit(32)
	for i := range conns {
		opening.Go(func() (err error) {
			if conns[i], err = c.tunnel(t.Context()); err != nil {
				return err
			}
			answer, err := c.ask(conns[i])
			if err == nil && !strings.HasPrefix(answer, "HTTP/1.1 200") {
				err = fmt.Errorf("answered %q", answer)
			}
			return err
		})
	}
	check.Must(t, opening.Wait())
	held := c.resources(t)
	client := c.client()
	defer client.CloseIdleConnections()
	for _, call := range []struct {
		method, path, body string
	}{{http.MethodGet, "/y", ""}, {http.MethodPost, "/texts", `{"a":1}`}} {
		req, err := http.NewRequestWithContext(t.Context(), call.method, "https://"+c.Plain()+call.path,
			strings.NewReader(call.body))
		check.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s beside idle connections: %s", call.method, resp.Status)
		}
	}
	t.Logf("%d idle tunnels: %.0f goroutines, %.0f descriptors", idle, held.goroutines, held.descriptors)
	if held.descriptors < float64(idle) {
		t.Errorf("only %.0f connections are still open", held.descriptors)
	}
}

// TestFloods has many connections send bodies without end. A small post succeeds once they have ended.
func TestFloods(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	c := newCapacityRig(t, "timeouts: {step: 30s}\n",
		func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stuck" {
				<-release
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
		})
	defer letGo() // so that a test that fails ends
	ctx, stop := context.WithCancel(t.Context())
	var flooding, posts sync.WaitGroup
	statuses := make(chan string, 400)
	flood := func(wg *sync.WaitGroup, method, path, contentType string, h2 bool) {
		wg.Go(func() {
			client := c.client()
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = h2
			defer client.CloseIdleConnections()
			req, err := http.NewRequestWithContext(ctx, method, "https://"+c.Plain()+path, io.LimitReader(endless{}, 200<<20))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", contentType)
			resp, err := client.Do(req)
			if err != nil { // such as one whose body was still on its way when it was refused
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			statuses <- path + " " + resp.Status
		})
	}
	for i := range kit.Size(4, 50) {
		flood(&posts, http.MethodPost, "/files", "application/octet-stream", i%2 == 0)
		flood(&posts, http.MethodPost, "/texts", "application/json", i%2 == 0)
		flood(&flooding, http.MethodPut, "/stuck", "application/octet-stream", i%2 == 0)
		flood(&flooding, http.MethodPut, "/stuck", "application/octet-stream", i%2 == 0)
	}
	posts.Wait()
	stop()
	letGo()
	flooding.Wait()
	close(statuses)
	counts := make(map[string]int)
	for s := range statuses {
		counts[s]++
	}
	t.Logf("answers: %s", counted(counts))
	client := c.client()
	defer client.CloseIdleConnections()
	kit.Until(t, "a small post afterwards", func() bool { // what is refused last may still hold memory
		resp, err := client.Post("https://"+c.Plain()+"/texts", "application/json", strings.NewReader(`{"a":1}`))
		check.Must(t, err)
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// endless is a body that never ends. As JSON it is a list that never does.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	return len(p), nil
}

// Under a flood of strangers a delivery is taken, and logs and ledger grow by no more than ten lines and records of
// each kind a minute.
func TestStrangersWriteLittle(t *testing.T) {
	t.Parallel()
	const lines = 64 << 10
	r := newCrashRig(t, kit.Self(t), "")
	logs := func() int64 { return sizes(t, r.Dir, "*.log") }
	ledger := func() int64 { return sizes(t, r.Dir, "state/ledger.db*") }
	logsBefore, ledgerBefore, began := logs(), ledger(), time.Now()

	for range 900 {
		c, err := net.Dial("tcp", r.Hooks)
		check.Must(t, err)
		defer c.Close()
	}
	if _, err := r.DeliverRelease(t.Context()); err != nil {
		t.Errorf("a delivery beside connections that say nothing: %v", err)
	}
	send := func(client *http.Client, url, body string, status int) {
		t.Helper()
		resp, err := client.Post(url, "application/json", strings.NewReader(body))
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Fatalf("%s was answered with %s", url, resp.Status)
		}
	}
	wrong := &url.URL{Scheme: "http", Host: r.Listen, User: url.UserPassword("ses_x", "wrong")}
	proxy := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(wrong)}}
	defer proxy.CloseIdleConnections()
	for range kit.Size(500, 1500) {
		send(http.DefaultClient, "http://"+r.Hooks+"/hooks/github", "{}", http.StatusUnauthorized)
		send(proxy, "http://"+r.Plain()+"/posts/x", "{}", http.StatusProxyAuthRequired)
	}
	if _, err := r.DeliverRelease(t.Context()); err != nil {
		t.Errorf("a delivery after the flood: %v", err)
	}
	minutes := 1 + int64(time.Since(began)/time.Minute)
	if grown := logs() - logsBefore; grown > minutes*lines {
		t.Errorf("the logs grew by %d bytes", grown)
	}
	if grown := ledger() - ledgerBefore; grown > minutes*256<<10 { // by pages, and what is not yet in them
		t.Errorf("the ledger grew by %d bytes", grown)
	}
}

// The trigger service reads only plain files.
func TestLinksInAQueue(t *testing.T) {
	t.Parallel()
	r := prepareCrashRig(t, kit.Self(t), "")
	kit.Edit(t, r.In(devstack.TriggerFile), "\nsources:\n",
		"\nsources:\n  - {name: jobs, queue: {dir: jobs}}\n")
	fresh := r.In("jobs/new")
	check.Must(t, os.MkdirAll(fresh, 0o700))
	const messages = 8
	for i := range messages {
		id := fmt.Sprint(i)
		err := errors.Join(os.Symlink(r.In(devstack.TriggerFile), filepath.Join(fresh, "link-"+id)),
			syscall.Mkfifo(filepath.Join(fresh, "fifo-"+id), 0o600),
			os.WriteFile(filepath.Join(fresh, "message-"+id), []byte("{}"), 0o600))
		check.Must(t, err)
	}
	r.startUntilEnd(t)
	taken := func() (n int) {
		for _, e := range r.events(t) {
			if e.Source == "jobs" {
				n++
			}
		}
		return n
	}
	kit.Until(t, "every message to be an event", func() bool { return taken() == messages })
	before := sizes(t, r.Dir, "trigger.log")
	for i := range 2 { // several rounds later
		id := fmt.Sprint("later-", i)
		kit.Write(t, filepath.Join(fresh, id), "{}")
		kit.Until(t, "a later message to be an event", func() bool { return taken() == messages+1+i })
	}
	if grown := sizes(t, r.Dir, "trigger.log") - before; grown > 4<<10 {
		t.Errorf("the log grew by %d bytes", grown)
	}
}

func sizes(t *testing.T, dir, pattern string) (n int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			n += info.Size()
		}
	}
	return n
}
