package main

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
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/full"
)

// clientRules are what the clients may do: read, and post one kind of comment.
const clientRules = `
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

// rig is a deployment with one upstream over HTTPS.
type rig struct {
	*trial.Deployment
	posts atomic.Int64 // how many arrived there
}

// newRig starts a deployment for the hosts that its upstream has a certificate for. Once that is written it asks for the upstream's
// handler and for the rules, in which UPSTREAM stands for its address and port, and PLAIN for its host and port. change may alter each
// file of the configuration.
func newRig(t *testing.T, hosts []string, api func(*rig) (handler http.Handler, rules string), change ...func(file string) string) *rig {
	t.Helper()
	r := prepareRig(t, hosts, api, change...)
	r.start(t)
	return r
}

// start starts the processes whose files are there.
func (r *rig) start(t *testing.T) {
	t.Helper()
	var err error
	if r.Stack, err = devstack.Start(context.Background(), r.Dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stack.Stop)
}

// prepareRig makes a deployment's folder and its upstream, and starts none of the processes.
func prepareRig(t *testing.T, hosts []string, api func(*rig) (handler http.Handler, rules string), change ...func(file string) string) *rig {
	t.Helper()
	full.Only(t, "root, and clients")
	r := &rig{Deployment: &trial.Deployment{Dir: t.TempDir()}}
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
		content[name] = lasting(raw)
	}
	if err := errors.Join(devstack.Prepare(r.Dir, content), files.WriteAbsent(filepath.Join(r.Dir, "secrets", "api-token"), []byte(trial.Token))); err != nil {
		t.Fatal(err)
	}
	return r
}

// agent is the deployment's agent as the node knows it, once its processes have started.
func (r *rig) agent(t *testing.T) accrual.Agent {
	t.Helper()
	agent, err := r.Agent()
	must(t, err)
	return agent
}

// lasting has events and evidence be good for longer than a slow machine takes, unless their age has been set: it is the
// demo that waits for an event to expire.
func lasting(file []byte) []byte {
	file = bytes.ReplaceAll(file, []byte("s: 15000\n"), []byte("s: 60000\n"))
	return bytes.Replace(file, []byte("maxAge: "+trial.MaxAge.String()), []byte("maxAge: 10m"), 1)
}

// newClientsRig is a deployment in front of what answers as GitHub's API does, and serves one repository by git's own HTTP backend.
func newClientsRig(t *testing.T, change ...func(file string) string) *rig {
	t.Helper()
	return newRig(t, []string{trial.PlainHost}, func(r *rig) (http.Handler, string) { return r.github(t), clientRules }, change...)
}

func (r *rig) github(t *testing.T) http.Handler {
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
		fmt.Fprintf(w, `{"id":%d}`, r.posts.Add(1))
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

// asAgent runs a command as an agent in a session of its own and returns what it printed.
func (r *rig) asAgent(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return r.asAgentIn(t, "", args...)
}

// asAgentIn is asAgent in another folder than that of the tests. Of /tmp, where the source may be, an agent sees the folder in which it starts and nothing else.
func (r *rig) asAgentIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	event, err := r.DeliverRelease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"run", "--admin", r.Stack.Admin(), "--event", event, "--"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(stdout.String()), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// need fails, and says what to run, where a client is not installed.
func need(t *testing.T, command string) string {
	t.Helper()
	full.Only(t, "programs that make setup installs")
	path, err := exec.LookPath(command)
	if err != nil {
		t.Fatalf("%s is not installed: run make setup", command)
	}
	return path
}

// nodeAgent is the start of a Node command line whose fetch follows the proxy's environment.
func nodeAgent(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat("testdata/node/node_modules/.ok"); err != nil {
		t.Fatal("Node's packages are not installed: run make setup")
	}
	return []string{need(t, "node"), "--no-warnings", "--import", "./testdata/node/proxy.mjs"}
}

// TestClients sends unmodified clients through the proxy: a read, a post with its evidence, and posts that are refused.
func TestClients(t *testing.T) {
	t.Parallel()
	r := newClientsRig(t)
	base := "https://" + r.Plain()
	repo, comments, milestones := base+"/repos/acme/site", base+"/repos/acme/site/issues/7/comments", base+"/repos/acme/site/milestones"
	const body = `{"body":"released"}`
	node := nodeAgent(t)
	curl := []string{need(t, "curl"), "-sS", "-w", " %{http_code}"}
	const python = "/usr/bin/python3" // Debian's own, which Debian's packages are for
	join := func(a []string, b ...string) []string { return append(append([]string{}, a...), b...) }
	for _, tt := range []struct {
		name string
		args []string
		want string // what the output ends with, or holds
	}{
		{"curl reads", join(curl, repo), "200"},
		{"curl reads by HTTP/1.1", join(curl, "--http1.1", repo), "200"},
		{"curl posts", join(curl, "-H", "Content-Type: application/json", "-d", body, comments), "201"},
		{"curl posts with Expect", join(curl, "-H", "Expect: 100-continue", "-H", "Content-Type: application/json", "-d", body, comments), "201"},
		{"curl posts chunked", join(curl, "-H", "Transfer-Encoding: chunked", "-H", "Content-Type: application/json", "-d", body, comments), "201"},
		{"curl is refused", join(curl, "-H", "Content-Type: application/json", "-d", body, milestones), `"code":"action_unmatched"`},
		{"curl is refused a form", join(curl, "-d", "a=b", comments), `"code":"content_malformed"`},
		{"curl is refused another spelling", join(curl, "--path-as-is", "-d", body, base+"/repos/acme/site/issues/7//comments"), `"code":"request_malformed"`},
		{"curl is refused a query", join(curl, "-H", "Content-Type: application/json", "-d", body, comments+"?x=1"), `"code":"override_refused"`},
		{"curl is refused a duplicate key", join(curl, "-H", "Content-Type: application/json", "-d", `{"a":1,"a":2}`, comments), `"code":"content_malformed"`},
		{"curl asks for its event", join(curl, "http://mediator.internal/v1/event"), `"kind":"source_event"`},
		{"requests reads", []string{python, "testdata/client.py", "requests", "GET", repo}, "200"},
		{"requests posts", []string{python, "testdata/client.py", "requests", "POST", comments, body}, "201"},
		{"requests is refused", []string{python, "testdata/client.py", "requests", "POST", milestones, body}, "403 action_unmatched"},
		{"httpx reads", []string{python, "testdata/client.py", "httpx", "GET", repo}, "200"},
		{"httpx posts", []string{python, "testdata/client.py", "httpx", "POST", comments, body}, "201"},
		{"httpx is refused", []string{python, "testdata/client.py", "httpx", "POST", milestones, body}, "403 action_unmatched"},
		{"fetch reads", join(node, "testdata/node/fetch.mjs", "GET", repo), "200"},
		{"fetch posts", join(node, "testdata/node/fetch.mjs", "POST", comments, body), "201"},
		{"fetch is refused", join(node, "testdata/node/fetch.mjs", "POST", milestones, body), "403 action_unmatched"},
		{"Octokit reads", join(node, "testdata/node/octokit.mjs", "read", base), "200"},
		{"Octokit posts", join(node, "testdata/node/octokit.mjs", "comment", base), "201"},
		{"Octokit is refused", join(node, "testdata/node/octokit.mjs", "milestone", base), "403 action_unmatched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := r.posts.Load()
			out, err := r.asAgent(t, tt.args...)
			if err != nil || !strings.Contains(out, tt.want) {
				t.Fatalf("got %q, %v; want %q", out, err, tt.want)
			}
			wantPosts := int64(0)
			if tt.want == "201" {
				wantPosts = 1
			}
			if got := r.posts.Load() - before; got != wantPosts {
				t.Errorf("%d posts reached the upstream, not %d", got, wantPosts)
			}
			if strings.Contains(out, trial.Token) {
				t.Error("the agent saw the API's credential")
			}
		})
	}
	t.Run("git reads", func(t *testing.T) {
		out, err := r.asAgent(t, "sh", "-c", `cd "$TMPDIR" && git clone -q "$0" site && git -C site log --format=%s`, base+"/git/site.git")
		if err != nil || out != "first" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("git may not push", func(t *testing.T) {
		_, err := r.asAgent(t, "sh", "-c", `cd "$TMPDIR" && git clone -q "$0" site && git -C site push -q "$0" main:other`, base+"/git/site.git")
		if err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("each call left one record", func(t *testing.T) {
		var posts []ledger.Record
		if err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts?limit=1000", &posts); err != nil {
			t.Fatal(err)
		}
		forwarded := 0
		for _, p := range posts {
			r.wantAssurance(t, p)
			if p.State == ledger.StateForwarding {
				t.Errorf("%s has no outcome", p.ID)
			}
			if p.Flow == "post" && p.State == ledger.StateForwarded {
				forwarded++
			}
		}
		if int64(forwarded) != r.posts.Load() {
			t.Errorf("%d posts are recorded as forwarded; %d reached the upstream", forwarded, r.posts.Load())
		}
	})
}

// wantAssurance asks for one record and demands that it claims what it may and no more.
func (r *rig) wantAssurance(t *testing.T, p ledger.Record) {
	t.Helper()
	var shown admin.Record
	if err := admin.Get(context.Background(), r.Stack.Admin(), "/v1/posts/"+p.ID, &shown); err != nil {
		t.Fatal(err)
	}
	if p.Flow != "post" {
		if shown.Assurance != nil {
			t.Errorf("%s is no post and claims %s", p.ID, shown.Assurance.Claim)
		}
		return
	}
	if shown.Assurance == nil {
		t.Fatalf("%s claims nothing, not even that", p.ID)
	}
	want, issues := policy.ClaimControlledPath, 0
	if p.State != ledger.StateForwarded {
		want, issues = policy.ClaimNone, 9
	}
	if got := *shown.Assurance; got.Claim != want || len(got.Issues) != issues {
		t.Errorf("%s, %s at step %q: claims %s, missing %v", p.ID, p.State, p.Step, got.Claim, got.Issues)
	}
	var text strings.Builder
	records.Print(&text, shown)
	if !strings.Contains(text.String(), want+"; nonHumanIdentityProven: false") {
		t.Errorf("posts show does not say so:\n%s", &text)
	}
}
