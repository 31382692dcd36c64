package plays

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// crashRules let the agent post to a path of its own in each play.
const crashRules = `
actions:
  - name: post
    match: {url: "https://PLAIN/posts/{play}", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    maxBody: 4194304
upstreams:
  - {host: "PLAIN", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`

// crashRig is a deployment of real processes, of a build with failpoints, in front of an upstream that notes what arrives.
type crashRig struct {
	*trial.Deployment
	dsn string // of the ledger; empty for a file

	supervisor *exec.Cmd
	said       *bytes.Buffer // by the supervisor on standard error

	mu   sync.Mutex                               // guards sent and hold
	sent map[string]int                           // how many posts arrived for each path
	hold func(*http.Request, http.ResponseWriter) // what the upstream does instead of answering
}

// buildWithFailpoints builds the program as it is released, but for the tag.
func buildWithFailpoints(t *testing.T) (binary string) {
	t.Helper()
	return kit.BuildProgram(t, "-tags", "failpoint")
}

// newCrashRig prepares a deployment and starts it. dsn names its ledger's database, or is empty for a file; more are lines of the
// sidecar's configuration.
func newCrashRig(t *testing.T, binary, dsn string, more ...string) *crashRig {
	t.Helper()
	full.Only(t, "root")
	r := prepareCrashRig(t, binary, dsn, more...)
	r.startUntilEnd(t)
	return r
}

// prepareCrashRig is newCrashRig without the start.
func prepareCrashRig(t *testing.T, binary, dsn string, more ...string) *crashRig {
	t.Helper()
	r := &crashRig{Deployment: &trial.Deployment{Dir: t.TempDir(), Self: binary}, dsn: dsn, sent: make(map[string]int)}
	r.Stack = devstack.New(r.Dir) // for the paths of its sockets
	var err error
	for _, at := range []*string{&r.Listen, &r.Hooks, &r.AwareAddr} {
		if *at, err = freeport.Address(); err != nil {
			t.Fatal(err)
		}
	}
	if err := trial.WriteCertificates(r.Dir, trial.PlainHost); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(r.Dir, "api.pem"), filepath.Join(r.Dir, "api.key"))
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewUnstartedServer(r)
	upstream.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	r.PlainAddr = upstream.Listener.Addr().String()
	rules := crashRules + strings.Join(more, "")
	if dsn != "" {
		rules += "ledger: {postgres: {dsnFile: secrets/ledger-dsn}}\n"
	}
	content := r.Files(rules)
	for name, raw := range content { // a play chooses the next write of the trigger service: nothing else may write there
		raw = bytes.Replace(kit.Lasting(raw), []byte("@every 1s"), []byte("@every 1h"), 1)
		if name == devstack.SidecarFile || name == devstack.TriggerFile || name == devstack.ControlFile {
			raw = append(raw, "confine: {write: [failpoint]}\n"...)
		}
		content[name] = raw
	}
	err = errors.Join(devstack.Prepare(r.Dir, content), os.Mkdir(filepath.Dir(r.failpoint()), 0o700), files.WriteAbsent(filepath.Join(r.Dir, "secrets", "ledger-dsn"), []byte(dsn)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// startUntilEnd starts all processes, and ends them with the test.
func (r *crashRig) startUntilEnd(t *testing.T) {
	t.Helper()
	r.start(t)
	t.Cleanup(func() {
		if r.supervisor != nil {
			_ = r.supervisor.Process.Signal(syscall.SIGTERM)
			_ = r.supervisor.Wait()
		}
	})
}

// start starts all processes, as mediator dev does, and returns when they are ready.
func (r *crashRig) start(t *testing.T) {
	t.Helper()
	lines := r.launch(t)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready") {
		t.Fatalf("the deployment does not start: %s %v %s", lines.Text(), r.supervisor.Wait(), r.said)
	}
	go func() {
		for lines.Scan() {
		}
	}()
}

// launch starts all processes, and returns what the supervisor prints.
func (r *crashRig) launch(t *testing.T) *bufio.Scanner {
	t.Helper()
	r.said = &bytes.Buffer{}
	r.supervisor = exec.Command(r.Self, "dev", "--quiet", "--dir", r.Dir)
	r.supervisor.Env = append(os.Environ(), "MEDIATOR_FAILPOINT="+r.failpoint())
	r.supervisor.Stderr = r.said
	r.supervisor.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := r.supervisor.StdoutPipe()
	if err := errors.Join(err, r.supervisor.Start()); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out)
}

// crashed waits until a process has been killed, and with it its deployment has ended.
func (r *crashRig) crashed(t *testing.T, process string) {
	t.Helper()
	r.ended(t, process, "signal: killed")
}

// ended waits until a process has ended in this way, and with it its deployment.
func (r *crashRig) ended(t *testing.T, process, how string) {
	t.Helper()
	deadline := time.AfterFunc(time.Minute, func() { _ = r.supervisor.Process.Kill() })
	defer deadline.Stop()
	_ = r.supervisor.Wait()
	r.supervisor = nil
	if want := "mediator " + process + " ended (" + how; !strings.Contains(r.said.String(), want) {
		t.Fatalf("the deployment did not end with %s (%s): %s", process, how, r.said)
	}
}

func (r *crashRig) failpoint() string { return filepath.Join(r.Dir, "failpoint", "points") }

// arm ends a process at the last of these points, once it has passed the others in this order.
func (r *crashRig) arm(t *testing.T, process string, points ...string) {
	t.Helper()
	if err := os.WriteFile(r.failpoint(), []byte(process+": "+strings.Join(points, "\n"+process+": ")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kill sends a signal to a process of the deployment.
func (r *crashRig) kill(t *testing.T, name string, signal syscall.Signal) {
	t.Helper()
	if pid := r.pid(t, name); pid == 0 {
		t.Errorf("there is no process %s", name)
	} else if err := syscall.Kill(pid, signal); err != nil {
		t.Error(err)
	}
}

// pid returns the number of a process of the deployment, or 0.
func (r *crashRig) pid(t *testing.T, name string) int {
	t.Helper()
	parent := r.supervisor.Process.Pid
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Error(err)
	}
	for _, task := range tasks {
		raw, _ := os.ReadFile(task) // a thread may have ended
		for _, child := range strings.Fields(string(raw)) {
			args, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if pid, err := strconv.Atoi(child); err == nil && bytes.Contains(args, []byte("\x00"+name+"\x00")) {
				return pid
			}
		}
	}
	return 0
}

// ServeHTTP is the upstream.
func (r *crashRig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.sent[req.URL.Path]++
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		hold(req, w)
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	w.WriteHeader(http.StatusCreated)
}

// arrived returns how many posts arrived for a path.
func (r *crashRig) arrived(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[path]
}

// open opens a session for an event.
func (r *crashRig) open(ctx context.Context, event string) (s admin.Session, err error) {
	err = admin.Call(ctx, r.Stack.Admin(), http.MethodPost, "/v1/sessions", map[string]string{"event": event}, &s)
	return s, err
}

// agentOf is a client whose calls go through the proxy, in a session.
func (r *crashRig) agentOf(t *testing.T, s admin.Session) *http.Client {
	t.Helper()
	proxy, err := url.Parse(s.ProxyURL)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(s.CAFile)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		t.Fatalf("no CA: %v", err)
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableKeepAlives: true, ExpectContinueTimeout: time.Minute, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
}

// try makes a post and returns its answer; d is the problem document of a refusal.
func (r *crashRig) try(ctx context.Context, t *testing.T, agent *http.Client, path string, answer http.Header) (resp *http.Response, d problem.Details) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.Plain()+path, strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if answer != nil {
		req.Header = answer.Clone()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err = agent.Do(req)
	if err != nil {
		t.Error(err)
		return &http.Response{}, d
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		raw, err := io.ReadAll(resp.Body)
		if err == nil {
			err = json.Unmarshal(raw, &d)
		}
		if err != nil {
			t.Error(err)
		}
		kit.WantNothingTold(t, string(raw))
	}
	return resp, d
}

// records returns the records of an event's calls.
func (r *crashRig) records(t *testing.T, event string) []ledger.Record {
	t.Helper()
	var all, ours []ledger.Record
	if err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?limit=1000", &all); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Event == event {
			ours = append(ours, p)
		}
	}
	return ours
}

// consumed counts the single-use keys that the ledger holds as used.
func (r *crashRig) consumed(t *testing.T) (n int) {
	t.Helper()
	driver, dsn, table := "sqlite", "file:"+filepath.Join(r.Dir, "state", "ledger.db")+"?mode=ro", "used"
	if r.dsn != "" {
		driver, dsn, table = "pgx", r.dsn, "actionproof.consumed"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
