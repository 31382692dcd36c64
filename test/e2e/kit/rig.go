package kit

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // of this Go, which Httpoxy does not reach
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// Upstream is the section of a configuration for an upstream of one host.
const Upstream = `upstreams:
  - {host: "PLAIN", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`

// ClientRules let an agent read, and post one kind of comment.
const ClientRules = `
actions:
  - name: comment
    match: {url: "https://PLAIN/repos/{owner}/{repo}/issues/{number}/comments", methods: [POST]}
    subject: agent:worker-1
    action: create_comment
    credential: {prefix: "Bearer ", file: secrets/api-token}
egress:
  - name: reads
    match: {url: "https://PLAIN/**", methods: [GET, HEAD]}
  - name: git-fetch
    match: {url: "https://PLAIN/git/{repo}/git-upload-pack", methods: [POST]}
` + Upstream

// Comment is the body of such a post, and Comments the path.
const (
	Comment  = `{"body":"released"}`
	Comments = "/repos/acme/site/issues/7/comments"
)

// Rig is a deployment of real processes in front of one upstream over HTTPS.
type Rig struct {
	*trial.Deployment
	User  int          // of the agents; each deployment has its own, so that tests can run at the same time
	Posts atomic.Int64 // that arrived upstream
}

// API returns the upstream of a deployment and its rules, in which UPSTREAM becomes the address and port of the
// upstream, and PLAIN its host and port.
type API func(*Rig) (handler http.Handler, rules string)

// Serve is an API that does not depend on the deployment.
func Serve(handler http.Handler, rules string) API {
	return func(*Rig) (http.Handler, string) { return handler, rules }
}

// NewRig starts a deployment. Its upstream has a certificate for the hosts. Each change can edit each file of the
// configuration.
func NewRig(t *testing.T, hosts []string, api API, changes ...func(file string) string) *Rig {
	t.Helper()
	r := PrepareRig(t, hosts, api, changes...)
	r.Start(t)
	return r
}

// NewClientsRig is NewRig for an upstream that answers as GitHub does and serves a repository by git's own HTTP
// backend.
func NewClientsRig(t *testing.T, changes ...func(file string) string) *Rig {
	t.Helper()
	r := PrepareClientsRig(t, changes...)
	r.Start(t)
	return r
}

// PrepareClientsRig is NewClientsRig without the start.
func PrepareClientsRig(t *testing.T, changes ...func(file string) string) *Rig {
	t.Helper()
	return PrepareRig(t, Plain, func(r *Rig) (http.Handler, string) { return r.GitHub(t), ClientRules }, changes...)
}

// Plain is the host of most upstreams.
var Plain = []string{trial.PlainHost}

// Start starts the processes whose files are there, and ends them with the test.
func (r *Rig) Start(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if log, _ := os.ReadFile(r.In("serve.log")); t.Failed() && len(log) > 0 {
			t.Logf("the end of the sidecar's log:\n%s", log[max(0, len(log)-4<<10):])
		}
	})
	stack, err := devstack.Start(context.WithoutCancel(t.Context()), r.Dir)
	check.Must(t, err)
	r.Stack = stack
	t.Cleanup(func() {
		for _, p := range stack.Processes {
			select {
			case <-p.Done:
				if t.Failed() {
					t.Log(stack.ExitError(p))
				}
			default:
			}
		}
		stack.Stop()
	})
	check.Must(t, stack.Ready(context.WithoutCancel(t.Context())))
}

// PrepareRig is NewRig without the start.
func PrepareRig(t *testing.T, hosts []string, api API, changes ...func(file string) string) *Rig {
	t.Helper()
	full.Only(t, "root, and clients")
	d, err := trial.New(t.TempDir())
	check.Must(t, err)
	r := &Rig{Deployment: d, User: trial.User()}
	if os.Geteuid() == 0 {
		_, port, _ := net.SplitHostPort(d.Listen) // no other deployment has this port, so none has this user
		r.User, err = strconv.Atoi(port)
		check.Must(t, err)
	}
	check.Must(t, trial.WriteCertificates(r.Dir, hosts...))
	handler, rules := api(r)
	r.PlainAddr = ServeTLS(t, r.Dir, handler)
	content := r.Files(strings.ReplaceAll(rules, "UPSTREAM", r.PlainAddr))
	for name, raw := range content {
		file := strings.ReplaceAll(string(raw), fmt.Sprintf("uid: %d}", trial.User()), fmt.Sprintf("uid: %d}", r.User))
		for _, change := range changes {
			file = change(file)
		}
		content[name] = Lasting([]byte(file))
	}
	check.Must(t, devstack.Prepare(r.Dir, content))
	if _, err := os.Stat(r.In("secrets/api-token")); errors.Is(err, os.ErrNotExist) {
		Write(t, r.In("secrets/api-token"), trial.Token)
	}
	return r
}

// Agent returns the deployment's agent as the node knows it, once the processes have started.
func (r *Rig) Agent(t *testing.T) accrual.Agent {
	t.Helper()
	root, err := evidence.ParseRoot(Read(t, r.In(devstack.RegistryFile)), evidence.PurposeSignerCertificate)
	check.Must(t, err)
	return accrual.Agent{Owner: interaction.Owner(root.Public), Subject: "agent:worker-1"}
}

// In returns the path of a file of the deployment.
func (r *Rig) In(name string) string { return filepath.Join(r.Dir, name) }

// ServeTLS serves with the certificate api.pem of a folder until the test ends, and returns the address.
func ServeTLS(t *testing.T, dir string, handler http.Handler) (address string) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "api.pem"), filepath.Join(dir, "api.key"))
	check.Must(t, err)
	upstream := httptest.NewUnstartedServer(handler)
	upstream.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	return upstream.Listener.Addr().String()
}

// Lasting makes events and evidence last longer than a slow machine takes, unless a test has set their age.
func Lasting(file []byte) []byte {
	file = bytes.ReplaceAll(file, []byte("s: 15000\n"), []byte("s: 60000\n"))
	return bytes.Replace(file, []byte("maxAge: "+trial.MaxAge.String()), []byte("maxAge: 10m"), 1)
}

// ManyPosts lets one event pay for many posts.
func ManyPosts(file string) string {
	return strings.Replace(file, "maxAge: "+trial.MaxAge.String(), "maxAge: 1h\nbudget: 100000", 1)
}

// GitHub answers as GitHub does.
func (r *Rig) GitHub(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /repos/acme/site", func(w http.ResponseWriter, _ *http.Request) {
		AnswerJSON(w, `{"full_name":"acme/site"}`)
	})
	mux.HandleFunc("POST "+Comments, func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || !json.Valid(body) || req.Header.Get("Authorization") != "Bearer "+trial.Token ||
			req.Header.Get("Idempotency-Key") == "" {
			http.Error(w, "no token, no key or no JSON", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, r.Posts.Add(1))
	})
	mux.HandleFunc("GET /favicon.ico", http.NotFound) // a browser asks
	mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("%s %s reached the upstream", req.Method, req.URL)
	})
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main", r.In("work"))
	git("-C", r.In("work"), "commit", "-q", "--allow-empty", "-m", "first")
	git("clone", "-q", "--bare", r.In("work"), r.In("git/site.git"))
	git("-C", r.In("git/site.git"), "config", "http.receivepack", "true") // the mediator refuses a push, not git
	mux.Handle("/git/", &cgi.Handler{
		Path: "/usr/lib/git-core/git-http-backend", Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + r.In("git"), "GIT_HTTP_EXPORT_ALL=1"},
	})
	return mux
}

// AnswerJSON answers with JSON.
func AnswerJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// Processes are the names of a deployment's processes.
var Processes = []string{"trigger", "control", "reputation", "serve"}

// configurations are the files of the processes.
var configurations = map[string]string{
	"serve": devstack.SidecarFile, "trigger": devstack.TriggerFile, "control": devstack.ControlFile,
	"reputation": devstack.ReputationFile,
}

// Process returns the process of this name that was started last.
func (r *Rig) Process(name string) *devstack.Process {
	for _, p := range slices.Backward(r.Stack.Processes) {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// StopProcess ends a process as an operator does.
func (r *Rig) StopProcess(t *testing.T, name string) {
	t.Helper()
	p := r.Process(name)
	check.Must(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	<-p.Done
}

// StartProcess starts a process and waits until it is ready.
func (r *Rig) StartProcess(t *testing.T, name string) {
	t.Helper()
	check.Must(t, r.Stack.StartProcess(name, configurations[name]))
	check.Must(t, r.Stack.WaitFor(t.Context(), r.Process(name), "/readyz"))
}

// Metrics returns what the process behind a socket exports.
func Metrics(t *testing.T, socket string) string {
	t.Helper()
	client, base := endpoint.Client(config.Peer{Unix: socket}, nil)
	defer client.CloseIdleConnections()
	resp, err := client.Get(base + "/metrics")
	check.Must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s", socket, resp.Status)
	}
	return string(raw)
}

// Log returns what a process has logged.
func (r *Rig) Log(t *testing.T, name string) string {
	t.Helper()
	return string(Read(t, r.In(name+".log")))
}

// Doctor runs mediator doctor. It returns the controls by their state too.
func (r *Rig) Doctor(t *testing.T) (_ Ended, byState map[string][]string) {
	t.Helper()
	var controls []policy.ObservedControl
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/v1/controls", &controls))
	byState = make(map[string][]string)
	for _, c := range controls {
		byState[c.State] = append(byState[c.State], c.Control)
	}
	return Mediator(t, "doctor", "--admin", r.Stack.Admin()), byState
}

// Event delivers an event and returns its id.
func (r *Rig) Event(t *testing.T) string {
	t.Helper()
	event, err := r.DeliverRelease(t.Context())
	check.Must(t, err)
	return event
}

// RunCommand returns the command mediator run for an event. It ends with the test.
func (r *Rig) RunCommand(t *testing.T, event string, flags []string, agent ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	args := slices.Concat([]string{"run", "--admin", r.Stack.Admin(), "--event", event}, flags, []string{"--"}, agent)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// AsAgent runs a command as an agent, in a session of its own and in the top folder of the source.
func (r *Rig) AsAgent(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := r.RunCommand(t, r.Event(t), nil, args...)
	cmd.Dir = Top
	out, errs, err := Output(cmd)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs)
	}
	return strings.TrimSpace(out), err
}

// Curl posts a comment as an agent and returns the answer with its status.
func (r *Rig) Curl(t *testing.T) string {
	t.Helper()
	out, err := r.AsAgent(t, Need(t, "curl"), "-sS", "-w", " %{http_code}", "-H", "Content-Type: application/json",
		"-d", Comment, "https://"+r.Plain()+Comments)
	check.Must(t, err)
	return out
}

// StartRun runs a shell script as an agent, for a new event. change edits the command before it starts.
func (r *Rig) StartRun(t *testing.T, change func(*exec.Cmd), flags []string, script string, args ...string) (
	stdout, stderr string, err error,
) {
	t.Helper()
	cmd := r.RunCommand(t, r.Event(t), flags, append([]string{"sh", "-c", script}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if change != nil {
		change(cmd)
	}
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// Output runs a command and returns what it prints.
func Output(cmd *exec.Cmd) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}
