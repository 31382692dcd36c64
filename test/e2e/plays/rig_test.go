package plays

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
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
` + kit.Upstream

// crashRig is a deployment under mediator dev, in front of an upstream that counts what arrives.
type crashRig struct {
	*trial.Deployment
	binary string
	dsn    string // of the ledger's database; empty for a file

	supervisor *exec.Cmd
	said       *bytes.Buffer // by the supervisor on standard error

	mu   sync.Mutex                               // guards sent and hold
	sent map[string]int                           // how many posts arrived for each path
	hold func(*http.Request, http.ResponseWriter) // what the upstream does instead of answering
}

// newCrashRig starts a deployment. dsn names its ledger's database and is empty for a file; more are lines of the
// sidecar's configuration.
func newCrashRig(t *testing.T, binary, dsn string, more ...string) *crashRig {
	t.Helper()
	r := prepareCrashRig(t, binary, dsn, more...)
	r.startUntilEnd(t)
	return r
}

// prepareCrashRig is newCrashRig without the start.
func prepareCrashRig(t *testing.T, binary, dsn string, more ...string) *crashRig {
	t.Helper()
	full.Only(t, "root")
	d, err := trial.New(t.TempDir())
	check.Must(t, err)
	r := &crashRig{Deployment: d, binary: binary, dsn: dsn, sent: make(map[string]int)}
	check.Must(t, trial.WriteCertificates(r.Dir, trial.PlainHost))
	r.PlainAddr = kit.ServeTLS(t, r.Dir, r)
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
	check.Must(t, errors.Join(devstack.Prepare(r.Dir, content), os.Mkdir(r.in("failpoint"), 0o700)))
	kit.Write(t, r.in("secrets/ledger-dsn"), dsn)
	return r
}

func (r *crashRig) in(name string) string { return filepath.Join(r.Dir, name) }

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
	r.supervisor = exec.Command(r.binary, "dev", "--quiet", "--dir", r.Dir)
	r.supervisor.Env = append(os.Environ(), "MEDIATOR_FAILPOINT="+r.failpoint())
	r.supervisor.Stderr = r.said
	r.supervisor.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := r.supervisor.StdoutPipe()
	check.Must(t, errors.Join(err, r.supervisor.Start()))
	return bufio.NewScanner(out)
}

// stop ends all processes as an operator does.
func (r *crashRig) stop(t *testing.T) {
	t.Helper()
	check.Must(t, r.supervisor.Process.Signal(syscall.SIGTERM))
	_ = r.supervisor.Wait()
	r.supervisor = nil
}

// crashed waits until a process has been killed, and its deployment has ended.
func (r *crashRig) crashed(t *testing.T, process string) {
	t.Helper()
	r.ended(t, process, "signal: killed")
}

// ended waits until a process has ended in this way, and its deployment too.
func (r *crashRig) ended(t *testing.T, process, how string) {
	t.Helper()
	deadline := time.AfterFunc(kit.Patience, func() { _ = r.supervisor.Process.Kill() })
	defer deadline.Stop()
	_ = r.supervisor.Wait()
	r.supervisor = nil
	if want := "mediator " + process + " ended (" + how; !strings.Contains(r.said.String(), want) {
		t.Fatalf("the deployment did not end with %s (%s): %s", process, how, r.said)
	}
}

func (r *crashRig) failpoint() string { return r.in("failpoint/points") }

// arm ends a process at the last of these points, once it has passed the others in this order.
func (r *crashRig) arm(t *testing.T, process string, points ...string) {
	t.Helper()
	kit.Write(t, r.failpoint(), process+": "+strings.Join(points, "\n"+process+": "))
}

// kill sends a signal to a process of the deployment.
func (r *crashRig) kill(t *testing.T, name string, signal syscall.Signal) {
	t.Helper()
	if pid := r.pid(name); pid == 0 {
		t.Errorf("there is no process %s", name)
	} else if err := syscall.Kill(pid, signal); err != nil {
		t.Error(err)
	}
}

// pid returns the number of a process of the deployment, or 0.
func (r *crashRig) pid(name string) int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.supervisor.Process.Pid))
	for _, task := range tasks {
		raw, _ := os.ReadFile(task) // a thread may have ended
		for child := range strings.FieldsSeq(string(raw)) {
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

// holdWith sets what the upstream does instead of answering.
func (r *crashRig) holdWith(hold func(*http.Request, http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
}

// arrived returns how many posts arrived for a path.
func (r *crashRig) arrived(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[path]
}

// open opens a session for an event.
func (r *crashRig) open(ctx context.Context, event string) (s admin.Session, err error) {
	err = admin.Call(ctx, r.Stack.Admin(), http.MethodPost, "/v1/sessions", admin.SessionRequest{Event: event}, &s)
	return s, err
}

// enter opens a session for a new event, and returns a client in it.
func (r *crashRig) enter(ctx context.Context, t *testing.T) (agent *http.Client, event string, s admin.Session) {
	t.Helper()
	event, err := r.DeliverRelease(ctx)
	check.Must(t, err)
	s, err = r.open(ctx, event)
	check.Must(t, err)
	return agentOf(t, s), event, s
}

// agentOf is a client in a session.
func agentOf(t *testing.T, s admin.Session) *http.Client {
	t.Helper()
	transport := kit.ProxyTransport(t, s)
	transport.DisableKeepAlives, transport.ExpectContinueTimeout = true, kit.Patience
	return &http.Client{Timeout: kit.Patience, Transport: transport}
}

// try makes a post. d is the problem document of a refusal.
func (r *crashRig) try(ctx context.Context, t *testing.T, agent *http.Client, path string, header http.Header) (
	resp *http.Response, d problem.Details,
) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.Plain()+path, strings.NewReader(`{"a":1}`))
	check.Must(t, err)
	if header != nil {
		req.Header = header.Clone()
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
		if err := errors.Join(err, json.Unmarshal(raw, &d)); err != nil {
			t.Error(err)
		}
		kit.WantNothingTold(t, string(raw))
	}
	return resp, d
}

// records returns the records of an event's calls.
func (r *crashRig) records(t *testing.T, event string) (ours []ledger.Record) {
	t.Helper()
	var all []ledger.Record
	check.Must(t, admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?limit=1000", &all))
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
	driver, dsn, table := "sqlite", "file:"+r.in("state/ledger.db")+"?mode=ro", "used"
	if r.dsn != "" {
		driver, dsn, table = "pgx", r.dsn, "actionproof.consumed"
	}
	db, err := sql.Open(driver, dsn)
	check.Must(t, err)
	defer db.Close()
	check.Must(t, db.QueryRow(`SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// withPatience is a context for one play.
func withPatience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	t.Cleanup(cancel)
	return ctx
}
