package kit

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/full"
)

// ClientRules are what the clients may do: read, and post one kind of comment.
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
upstreams:
  - {host: "PLAIN", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`

// Rig is a deployment with one upstream over HTTPS.
type Rig struct {
	*trial.Deployment
	Posts atomic.Int64 // how many arrived there
}

// NewRig starts a deployment for the hosts that its upstream has a certificate for. Once that is written it asks for the upstream's
// handler and for the rules, in which UPSTREAM stands for its address and port, and PLAIN for its host and port. change may alter each
// file of the configuration.
func NewRig(t *testing.T, hosts []string, api func(*Rig) (handler http.Handler, rules string), change ...func(file string) string) *Rig {
	t.Helper()
	r := PrepareRig(t, hosts, api, change...)
	r.Start(t)
	return r
}

// Start starts the processes whose files are there.
func (r *Rig) Start(t *testing.T) {
	t.Helper()
	var err error
	if r.Stack, err = devstack.Start(context.Background(), r.Dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stack.Stop)
}

// PrepareRig makes a deployment's folder and its upstream, and starts none of the processes.
func PrepareRig(t *testing.T, hosts []string, api func(*Rig) (handler http.Handler, rules string), change ...func(file string) string) *Rig {
	t.Helper()
	full.Only(t, "root, and clients")
	r := &Rig{Deployment: &trial.Deployment{Dir: t.TempDir()}}
	for _, at := range []*string{&r.Listen, &r.Hooks, &r.AwareAddr} {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		*at = address
	}
	if err := trial.WriteCertificates(r.Dir, hosts...); err != nil {
		t.Fatal(err)
	}
	handler, rules := api(r)
	upstream := httptest.NewUnstartedServer(handler)
	cert, err := tls.LoadX509KeyPair(filepath.Join(r.Dir, "api.pem"), filepath.Join(r.Dir, "api.key"))
	if err != nil {
		t.Fatal(err)
	}
	upstream.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	r.PlainAddr = upstream.Listener.Addr().String()
	rules = strings.ReplaceAll(rules, "UPSTREAM", r.PlainAddr)
	content := r.Files(rules)
	for name, raw := range content {
		for _, c := range change {
			raw = []byte(c(string(raw)))
		}
		content[name] = Lasting(raw)
	}
	if err := errors.Join(devstack.Prepare(r.Dir, content), files.WriteAbsent(filepath.Join(r.Dir, "secrets", "api-token"), []byte(trial.Token))); err != nil {
		t.Fatal(err)
	}
	return r
}

// Lasting has events and evidence be good for longer than a slow machine takes, unless their age has been set: it is the
// demo that waits for an event to expire.
func Lasting(file []byte) []byte {
	file = bytes.ReplaceAll(file, []byte("s: 15000\n"), []byte("s: 60000\n"))
	return bytes.Replace(file, []byte("maxAge: "+trial.MaxAge.String()), []byte("maxAge: 10m"), 1)
}

// NewClientsRig is a deployment in front of what answers as GitHub's API does, and serves one repository by git's own HTTP backend.
func NewClientsRig(t *testing.T, change ...func(file string) string) *Rig {
	t.Helper()
	return NewRig(t, []string{trial.PlainHost}, func(r *Rig) (http.Handler, string) { return r.Github(t), ClientRules }, change...)
}

func (r *Rig) Github(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /repos/acme/site", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"full_name":"acme/site"}`)
	})
	mux.HandleFunc("POST /repos/acme/site/issues/7/comments", func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || !json.Valid(body) || req.Header.Get("Authorization") != "Bearer "+trial.Token || req.Header.Get("Idempotency-Key") == "" {
			http.Error(w, "no token, no key or no JSON", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, r.Posts.Add(1))
	})
	mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("%s %s reached the upstream", req.Method, req.URL)
	})
	repos := r.Dir + "/git"
	sh := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	sh("init", "-q", "-b", "main", r.Dir+"/work")
	sh("-C", r.Dir+"/work", "commit", "-q", "--allow-empty", "-m", "first")
	sh("clone", "-q", "--bare", r.Dir+"/work", repos+"/site.git")
	sh("-C", repos+"/site.git", "config", "http.receivepack", "true") // so that it is the mediator who refuses a push
	backend := "/usr/lib/git-core/git-http-backend"
	mux.Handle("/git/", &cgi.Handler{Path: backend, Root: "/git", Env: []string{"GIT_PROJECT_ROOT=" + repos, "GIT_HTTP_EXPORT_ALL=1"}})
	return mux
}

// Process returns the process of a name that was started last.
func (r *Rig) Process(name string) *devstack.Process {
	for _, p := range slices.Backward(r.Stack.Processes) {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Speaking gives the sidecar the key that signs what its agent publishes, and allows it in the manifest.
func Speaking(file string) string {
	if strings.Contains(file, "\ndeploymentId: ") {
		return string(trial.WithStatements([]byte(file)))
	}
	return trial.Speaking(file)
}

// ManyPosts lets one event pay for many posts.
func ManyPosts(file string) string {
	return strings.Replace(file, "maxAge: "+trial.MaxAge.String(), "maxAge: 1h\nbudget: 100000", 1)
}
