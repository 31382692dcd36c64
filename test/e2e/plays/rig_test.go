package plays

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const crashRules = `
actions:
  - name: post
    match: {url: "https://PLAIN/posts/{play}", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    maxBody: 4194304
` + kit.Upstream

type crashRig struct {
	*kit.Rig
	binary string
	dsn    string // of the ledger's database; empty for a file
	logs   bool   // a transparency log

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

func prepareCrashRig(t *testing.T, binary, dsn string, more ...string) *crashRig {
	t.Helper()
	r := &crashRig{binary: binary, dsn: dsn, sent: make(map[string]int)}
	rules := crashRules + strings.Join(more, "")
	r.logs = strings.Contains(rules, "transparencyLog:")
	if dsn != "" {
		rules += "ledger: {postgres: {dsnFile: secrets/ledger-dsn}}\n"
	}
	r.Rig = kit.PrepareRig(t, kit.Plain, kit.Serve(r, rules), func(file string) string {
		if strings.Contains(file, "\ncustody: ") && !strings.Contains(file, "\nowners:") { // all processes but the node
			file += "confine: {write: [failpoint]}\n"
		}
		// A play chooses the next write of the trigger service: nothing else may write there.
		return strings.Replace(file, "@every 1s", "@every 1h", 1)
	})
	check.Must(t, os.Mkdir(r.In("failpoint"), 0o700))
	kit.Write(t, r.In("secrets/ledger-dsn"), dsn)
	return r
}

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

func (r *crashRig) stop(t *testing.T) {
	t.Helper()
	check.Must(t, r.supervisor.Process.Signal(syscall.SIGTERM))
	_ = r.supervisor.Wait()
	r.supervisor = nil
}

func (r *crashRig) crashed(t *testing.T, process string) {
	t.Helper()
	r.ended(t, process, "signal: killed")
}

// crashedSoon awaits the end of a deployment at a point that its start reaches. The supervisor may say that a process
// does not answer, because it asked before it saw that one's end.
func (r *crashRig) crashedSoon(t *testing.T) {
	t.Helper()
	r.wait()
	if _, err := os.Stat(r.failpoint()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no process has reached the point: %v, %s", err, r.said)
	}
}

func (r *crashRig) wait() {
	deadline := time.AfterFunc(kit.Patience, func() { _ = r.supervisor.Process.Kill() })
	defer deadline.Stop()
	_ = r.supervisor.Wait()
	r.supervisor = nil
}

func (r *crashRig) ended(t *testing.T, process, how string) {
	t.Helper()
	r.wait()
	if want := "mediator " + process + " ended (" + how; !strings.Contains(r.said.String(), want) {
		t.Fatalf("the deployment did not end with %s (%s): %s", process, how, r.said)
	}
}

func (r *crashRig) failpoint() string { return r.In("failpoint/points") }

func (r *crashRig) arm(t *testing.T, process string, points ...string) {
	t.Helper()
	kit.Write(t, r.failpoint(), process+": "+strings.Join(points, "\n"+process+": "))
}

func (r *crashRig) kill(t *testing.T, name string, signal syscall.Signal) {
	t.Helper()
	if pid := r.pid(name); pid == 0 {
		t.Errorf("there is no process %s", name)
	} else if err := syscall.Kill(pid, signal); err != nil {
		t.Error(err)
	}
}

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

func (r *crashRig) holdWith(hold func(*http.Request, http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
}

func (r *crashRig) arrived(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[path]
}

func (r *crashRig) open(t *testing.T, event string) (s admin.Session, err error) {
	request := admin.SessionRequest{Event: event}
	err = admin.Call(t.Context(), r.Stack.Admin(), http.MethodPost, "/v1/sessions", request, &s)
	return s, err
}

func (r *crashRig) enter(t *testing.T) kit.Agent {
	t.Helper()
	a := reconnecting(r.OpenAgent(t))
	if r.logs { // a play chooses the next write to the ledger: that of the session must be over
		entry := "leaves WHERE id = 'session-opened " + a.Session.Session + "'"
		kit.Until(t, "the session's entry in the log", func() bool { return r.count(t, entry) == 1 })
	}
	return a
}

func reconnecting(a kit.Agent) kit.Agent {
	transport := a.Transport.(*http.Transport)
	transport.DisableKeepAlives, transport.ExpectContinueTimeout = true, kit.Patience
	return a
}

func post(a kit.Agent, path string) kit.Outcome { return a.Call(http.MethodPost, path, `{"a":1}`) }

func (r *crashRig) records(t *testing.T, event string) []ledger.Record {
	t.Helper()
	other := func(p ledger.Record) bool { return p.Event != event }
	return slices.DeleteFunc(r.Records(t, "limit=1000"), other)
}

func (r *crashRig) consumed(t *testing.T) int {
	t.Helper()
	return r.count(t, "consumed")
}

// count counts the rows of a table.
func (r *crashRig) count(t *testing.T, table string) (n int) {
	t.Helper()
	driver, dsn := "sqlite", "file:"+r.In("state/ledger.db")+"?mode=ro"
	if r.dsn != "" {
		driver, dsn, table = "pgx", r.dsn, "actionproof."+table
	}
	db, err := sql.Open(driver, dsn)
	check.Must(t, err)
	defer db.Close()
	check.Must(t, db.QueryRow(`SELECT count(*) FROM `+table).Scan(&n))
	return n
}

func TestMain(m *testing.M) { kit.Main(m, nil) }
