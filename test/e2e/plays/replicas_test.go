package plays

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/demo/agent"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// replicas are sidecars of one configuration, each in its own folder, which share a trigger service, a control plane
// and a ledger.
type replicas struct {
	*crashRig
	all      []*replica
	manifest *policy.Manifest
	registry keyring.RootKey
	auditor  keyring.RootKey
}

type replica struct {
	*devstack.Stack
	listen string // its proxy port
}

// replicaRules let the agent solve challenges, which any replica accepts.
const replicaRules = `gate: {secretFile: secrets/gate-secret, difficulty: lite}
`

// newReplicas starts n sidecars. The trigger service and the control plane use the folder of the first.
func newReplicas(ctx context.Context, t *testing.T, dsn string, n int, more ...string) *replicas {
	t.Helper()
	full.Only(t, "PostgreSQL")
	c := &replicas{crashRig: prepareCrashRig(t, kit.Self(t), dsn, append(more, replicaRules)...)}
	kit.Edit(t, c.in(devstack.SidecarFile), "listen: "+c.Listen, "listen: 127.0.0.1:0")
	kit.Edit(t, c.in(devstack.SidecarFile), "    action: create_post\n", "    action: create_post\n    solver: agent\n")
	kit.Write(t, c.in("secrets/gate-secret"), strings.Repeat("secret of the gate ", 3))
	t.Cleanup(func() {
		for _, r := range c.all { // the first one's trigger service and control plane go last
			defer r.Stop()
		}
	})
	for i := range n {
		dir := c.Dir
		if i > 0 {
			dir = c.copied(t)
		}
		c.all = append(c.all, &replica{Stack: devstack.New(dir)})
	}
	c.startReplicas(ctx, t)
	return c
}

// copied returns another folder with the same configuration and the same other processes.
func (c *replicas) copied(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	check.Must(t,
		errors.Join(os.MkdirAll(filepath.Join(dir, "run"), 0o700), os.MkdirAll(filepath.Join(dir, "state"), 0o700)))
	for _, name := range []string{devstack.SidecarFile, devstack.ManifestFile, devstack.PolicyFile, "secrets",
		"api-ca.pem", "run/trigger.sock", "run/control.sock"} {
		check.Must(t, os.Symlink(filepath.Join(c.Dir, name), filepath.Join(dir, name)))
	}
	return dir
}

// startReplicas starts all processes, and certifies each sidecar's keys in its own bundle, since they have the same
// names.
func (c *replicas) startReplicas(ctx context.Context, t *testing.T) {
	t.Helper()
	var err, bad error
	if c.manifest, err = c.all[0].PinHashes(); err != nil {
		t.Fatal(err)
	}
	c.registry, _, err = keyring.GenerateRoot("registry", false)
	c.auditor, _, bad = keyring.GenerateRoot("auditor", false)
	err = errors.Join(err, bad, c.all[0].Stack.StartProcess("trigger", devstack.TriggerFile),
		c.all[0].Stack.StartProcess("control", devstack.ControlFile))
	for _, r := range c.all {
		err = errors.Join(err, r.Stack.StartProcess("serve", devstack.SidecarFile))
	}
	check.Must(t, err)
	for _, r := range c.all {
		c.certify(ctx, t, r)
	}
	for _, r := range c.all {
		r.ready(ctx, t)
	}
}

// certify certifies the keys of a replica and of the processes that it shares.
func (c *replicas) certify(ctx context.Context, t *testing.T, r *replica) {
	t.Helper()
	for _, p := range r.Processes {
		check.Must(t, r.WaitFor(ctx, p, "/healthz"))
	}
	r.Auditor = c.auditor
	p, err := keyring.ReadPublished(ctx,
		[]string{"unix:" + c.all[0].Socket("trigger"), "unix:" + c.all[0].Socket("control"), r.Admin()})
	check.Must(t, err)
	if _, err := r.WriteTrust(ctx, c.manifest, c.registry, p); err != nil {
		t.Fatal(err)
	}
}

func (r *replica) ready(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, p := range r.Processes {
		check.Must(t, r.WaitFor(ctx, p, "/readyz"))
	}
	r.listen = r.port(ctx, t)
}

// port reads the address of the proxy from the log of a sidecar.
func (r *replica) port(ctx context.Context, t *testing.T) string {
	t.Helper()
	says := regexp.MustCompile(`"proxy":"(127\.0\.0\.1:\d+)"`)
	for ctx.Err() == nil { // it is ready a moment before it says so
		log := kit.Read(t, filepath.Join(r.Dir, "serve.log"))
		if found := says.FindSubmatch(log); found != nil {
			return string(found[1])
		}
	}
	t.Fatal("a sidecar does not say where it listens")
	return ""
}

func (c *replicas) agent(ctx context.Context, t *testing.T, r *replica) *http.Client {
	t.Helper()
	agent, _ := c.session(ctx, t, r)
	return agent
}

// session opens a session for a new event at a replica.
func (c *replicas) session(ctx context.Context, t *testing.T, r *replica) (agent *http.Client, id string) {
	t.Helper()
	event, err := c.DeliverRelease(ctx)
	check.Must(t, err)
	var s admin.Session
	check.Must(t, admin.Call(ctx, r.Admin(), http.MethodPost, "/v1/sessions", map[string]string{"event": event}, &s))
	s.ProxyURL = strings.Replace(s.ProxyURL, "127.0.0.1:0", r.listen, 1)
	return agentOf(t, s), s.Session
}

// solvedBy asks a replica for a challenge and solves it.
func (c *replicas) solvedBy(ctx context.Context, t *testing.T, r *replica, path string) http.Header {
	t.Helper()
	_, d := c.try(ctx, t, c.agent(ctx, t, r), path, nil)
	answer, err := agent.Solve(ctx, d.Challenge)
	if err != nil {
		t.Fatalf("%s: %v", d.Code, err)
	}
	return answer
}

// TestReplicasShareALedger runs three sidecars on one database. Many agents, each with its own event, show all of them
// the same solved challenge: one post is made. Then the database is lost, and comes back.
func TestReplicasShareALedger(t *testing.T) {
	t.Parallel()
	ctx := withPatience(t)
	server := pgtest.Start(t)
	c := newReplicas(ctx, t, server.Database(t), 3)
	for round, issuer := range c.all {
		c.race(ctx, t, issuer, "/posts/round-"+string(rune('a'+round)))
	}
	if got := c.consumed(t); got != len(c.all)*keysOfAPost {
		t.Errorf("%d keys are consumed, want %d", got, len(c.all)*keysOfAPost)
	}

	server.Kill(t)
	for _, r := range c.all {
		resp, d := c.try(ctx, t, c.agent(ctx, t, r), "/posts/lost", c.solvedBy(ctx, t, r, "/posts/lost"))
		if resp.StatusCode != http.StatusServiceUnavailable || d.Code != "ledger_unavailable" ||
			resp.Header.Get("Retry-After") != "5" {
			t.Errorf("without the database: %d %s, Retry-After %q", resp.StatusCode, d.Code, resp.Header.Get("Retry-After"))
		}
	}
	if n := c.arrived("/posts/lost"); n != 0 {
		t.Errorf("%d posts arrived without a record", n)
	}
	server.Restart(t)
	back := time.Now()
	for i, r := range c.all {
		path := "/posts/back-" + string(rune('a'+i))
		resp, d := c.try(ctx, t, c.agent(ctx, t, r), path, c.solvedBy(ctx, t, r, path))
		for resp.StatusCode != http.StatusCreated && ctx.Err() == nil {
			t.Logf("not yet: %d %s", resp.StatusCode, d.Code)
			resp, d = c.try(ctx, t, c.agent(ctx, t, r), path, c.solvedBy(ctx, t, r, path))
		}
		if n := c.arrived(path); n != 1 {
			t.Errorf("%d posts arrived", n)
		}
	}
	t.Logf("all three post again %s after the database is back", time.Since(back).Round(time.Millisecond))
	kit.Until(t, "the records of the posts that were refused without it", func() bool {
		return c.states(ctx, t, c.all[0], "/posts/lost")["refused ledger_unavailable"] == len(c.all)
	})
}

// race shows one challenge of one replica to all of them at once.
func (c *replicas) race(ctx context.Context, t *testing.T, issuer *replica, path string) {
	t.Helper()
	clients := kit.Size(24, 64)
	agents := make([]*http.Client, clients)
	for i := range agents {
		agents[i] = c.agent(ctx, t, c.all[i%len(c.all)])
	}
	answer := c.solvedBy(ctx, t, issuer, path) // good for less time than so many sessions may take to open
	var mu sync.Mutex                          // guards got
	got := make(map[string]int)
	var all sync.WaitGroup
	for _, agent := range agents {
		all.Go(func() {
			resp, d := c.try(ctx, t, agent, path, answer)
			mu.Lock()
			defer mu.Unlock()
			got[http.StatusText(resp.StatusCode)+" "+d.Code]++
		})
	}
	all.Wait()
	if got["Created "] != 1 || got["Conflict replayed"] != clients-1 {
		t.Errorf("%d clients got %v", clients, got)
	}
	if n := c.arrived(path); n != 1 {
		t.Errorf("%d posts arrived", n)
	}
	var states map[string]int
	if !kit.Eventually(func() bool { // the others store their outcomes soon after their answers
		states = c.states(ctx, t, issuer, path)
		return states["forwarded "] == 1 && states["refused replayed"] == clients-1
	}) {
		t.Errorf("the records are %v", states)
	}
}

// states counts the records of a path by state and code.
func (c *replicas) states(ctx context.Context, t *testing.T, r *replica, path string) map[string]int {
	t.Helper()
	var records []ledger.Record
	check.Must(t, admin.Get(ctx, r.Admin(), "/v1/posts?limit=1000", &records))
	states := make(map[string]int)
	for _, p := range records {
		if p.Path == path {
			states[string(p.State)+" "+p.Code]++
		}
	}
	return states
}
