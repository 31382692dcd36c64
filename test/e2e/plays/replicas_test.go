package plays

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/demo/agent"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// replicas are sidecars with a folder each, which share a trigger service, a control plane and a ledger.
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

const replicaRules = `gate: {secretFile: secrets/gate-secret, difficulty: lite}
`

func newReplicas(t *testing.T, binary, dsn string, n int, more ...string) *replicas {
	t.Helper()
	c := &replicas{crashRig: prepareCrashRig(t, binary, dsn, append(more, replicaRules)...)}
	kit.Edit(t, c.In(devstack.SidecarFile), "listen: "+c.Listen, "listen: 127.0.0.1:0")
	kit.Edit(t, c.In(devstack.SidecarFile), "    action: create_post\n", "    action: create_post\n    solver: agent\n")
	kit.Write(t, c.In("secrets/gate-secret"), strings.Repeat("secret of the gate ", 3))
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
	c.startReplicas(t)
	return c
}

func (c *replicas) copied(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	check.Must(t,
		errors.Join(os.MkdirAll(dir+"/run", 0o700), os.MkdirAll(dir+"/state", 0o700)))
	for _, name := range []string{devstack.SidecarFile, devstack.ManifestFile, devstack.PolicyFile, "secrets",
		"api-ca.pem", "run/trigger.sock", "run/control.sock"} {
		check.Must(t, os.Symlink(filepath.Join(c.Dir, name), filepath.Join(dir, name)))
	}
	if c.logs { // one key
		kit.Run(t, "log", "key", "--config", c.In(devstack.SidecarFile))
		const key = "state/log-key.pem"
		check.Must(t, os.WriteFile(filepath.Join(dir, key), kit.Read(t, c.In(key)), 0o600))
	}
	return dir
}

// startReplicas starts all processes, and certifies each sidecar's keys in its own bundle, since they have the same
// names.
func (c *replicas) startReplicas(t *testing.T) {
	t.Helper()
	var err, bad error
	if c.manifest, err = c.all[0].PinHashes(); err != nil {
		t.Fatal(err)
	}
	c.pin(t)
	c.registry, _, err = keyring.GenerateRoot("registry", false)
	c.auditor, _, bad = keyring.GenerateRoot("auditor", false)
	err = errors.Join(err, bad, c.all[0].Stack.StartProcess("trigger", devstack.TriggerFile),
		c.all[0].Stack.StartProcess("control", devstack.ControlFile))
	check.Must(t, err)
	for _, r := range c.all {
		r.Processes = append(r.Processes, c.serve(t, r))
	}
	for _, r := range c.all {
		c.certify(t, r)
	}
	for _, r := range c.all {
		r.ready(t)
	}
}

// pin pins the program of the sidecars, in place of that of this test.
func (c *replicas) pin(t *testing.T) {
	t.Helper()
	hash, err := evidence.HashValue(map[string]string{"binary": evidence.HashBytes(kit.Read(t, c.binary)),
		"config": evidence.HashBytes(kit.Read(t, c.In(devstack.SidecarFile)))})
	check.Must(t, err)
	file := c.In(devstack.ManifestFile)
	kit.Write(t, file, environmentHash.ReplaceAll(kit.Read(t, file), []byte("${1}"+hash)))
	c.manifest, err = deployed.ReadManifest(file)
	check.Must(t, err)
}

var environmentHash = regexp.MustCompile(`(requiredEnvironmentHash: *)"?[0-9a-f]{64}"?`)

// serve starts the sidecar of a replica.
func (c *replicas) serve(t *testing.T, r *replica) *devstack.Process {
	t.Helper()
	check.Must(t, os.MkdirAll(filepath.Join(r.Dir, "failpoint"), 0o700))
	log, err := os.Create(filepath.Join(r.Dir, "serve.log"))
	check.Must(t, err)
	defer log.Close()
	p := &devstack.Process{Name: "serve", Endpoint: r.Admin(), Done: make(chan struct{}),
		Cmd: exec.Command(c.binary, "serve", "--config", filepath.Join(r.Dir, devstack.SidecarFile))}
	p.Cmd.Env = append(os.Environ(), "MEDIATOR_FAILPOINT="+r.failpoint())
	p.Cmd.Stdout, p.Cmd.Stderr = log, log
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	check.Must(t, p.Cmd.Start())
	go func() {
		p.Err = p.Cmd.Wait()
		close(p.Done)
	}()
	return p
}

// restart kills the sidecar of a replica, if it has not ended, and starts it again.
func (c *replicas) restart(t *testing.T, r *replica) {
	t.Helper()
	last := &r.Processes[len(r.Processes)-1]
	_ = (*last).Cmd.Process.Kill()
	<-(*last).Done
	*last = c.serve(t, r)
	c.certify(t, r)
	r.ready(t)
}

func (r *replica) failpoint() string { return filepath.Join(r.Dir, "failpoint/points") }

// ended reports whether the sidecar has ended.
func (r *replica) ended() bool {
	select {
	case <-r.Processes[len(r.Processes)-1].Done:
		return true
	default:
		return false
	}
}

func (c *replicas) certify(t *testing.T, r *replica) {
	t.Helper()
	for _, p := range r.Processes {
		check.Must(t, r.WaitFor(t.Context(), p, "/healthz"))
	}
	r.Auditor = c.auditor
	p, err := keyring.ReadPublished(t.Context(),
		[]string{"unix:" + c.all[0].Socket("trigger"), "unix:" + c.all[0].Socket("control"), r.Admin()})
	check.Must(t, err)
	if _, err := r.WriteTrust(t.Context(), c.manifest, c.registry, p); err != nil {
		t.Fatal(err)
	}
}

func (r *replica) ready(t *testing.T) {
	t.Helper()
	for _, p := range r.Processes {
		check.Must(t, r.WaitFor(t.Context(), p, "/readyz"))
	}
	r.listen = r.port(t)
}

func (r *replica) port(t *testing.T) (address string) {
	t.Helper()
	says := regexp.MustCompile(`"proxy":"(127\.0\.0\.1:\d+)"`)
	kit.Until(t, "the sidecar to say where it listens", func() bool { // it is ready a moment before it says so
		found := says.FindSubmatch(kit.Read(t, r.Dir+"/serve.log"))
		if found != nil {
			address = string(found[1])
		}
		return found != nil
	})
	return address
}

func (c *replicas) agent(t *testing.T, r *replica) kit.Agent {
	t.Helper()
	return reconnecting(c.OpenAgentAt(t, r.Admin(), func(s *admin.Session) {
		s.ProxyURL = strings.Replace(s.ProxyURL, "127.0.0.1:0", r.listen, 1)
	}))
}

func (c *replicas) solvedBy(t *testing.T, r *replica, path string) http.Header {
	t.Helper()
	o := post(c.agent(t, r), path)
	answer, err := agent.Solve(t.Context(), o.Challenge)
	if err != nil {
		t.Fatalf("%s: %v", o.Code, err)
	}
	return answer
}

func (c *replicas) posts(t *testing.T, r *replica, path string) kit.Outcome {
	t.Helper()
	a := c.agent(t, r)
	a.Header = c.solvedBy(t, r, path)
	return post(a, path)
}

// Agents show all replicas the same solved challenge, and one post is made.
func TestReplicasShareALedger(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	c := newReplicas(t, kit.Self(t), server.Database(t), 3)
	for round, issuer := range c.all {
		c.race(t, issuer, "/posts/round-"+string(rune('a'+round)))
	}
	if got := c.consumed(t); got != len(c.all)*keysOfAPost {
		t.Errorf("%d keys are consumed, want %d", got, len(c.all)*keysOfAPost)
	}

	server.Kill(t)
	for _, r := range c.all {
		if o := c.posts(t, r, "/posts/lost"); o.Code != "ledger_unavailable" || o.Retry != 5 {
			t.Errorf("without the database: %+v", o)
		}
	}
	c.wantArrived(t, "/posts/lost", 0)
	server.Restart(t)
	for i, r := range c.all {
		path := "/posts/back-" + string(rune('a'+i))
		kit.Until(t, "a post once the database is back", func() bool { return c.posts(t, r, path).Code == "" })
		c.wantArrived(t, path, 1)
	}
	kit.Until(t, "the records of the posts that were refused without it", func() bool {
		return c.states(t, "/posts/lost")["refused ledger_unavailable"] == len(c.all)
	})
}

func (c *replicas) race(t *testing.T, issuer *replica, path string) {
	t.Helper()
	clients := kit.Size(24, 64)
	agents := make([]kit.Agent, clients)
	for i := range agents {
		agents[i] = c.agent(t, c.all[i%len(c.all)])
	}
	answer := c.solvedBy(t, issuer, path) // good for less time than so many sessions may take to open
	var mu sync.Mutex                     // guards got
	got := make(map[string]int)
	var all sync.WaitGroup
	for _, agent := range agents {
		all.Go(func() {
			agent.Header = answer
			o := post(agent, path)
			mu.Lock()
			defer mu.Unlock()
			got[http.StatusText(o.Status)+" "+o.Code]++
		})
	}
	all.Wait()
	if got["Created "] != 1 || got["Conflict replayed"] != clients-1 {
		t.Errorf("%d clients got %v", clients, got)
	}
	c.wantArrived(t, path, 1)
	kit.Until(t, "the records", func() bool { // the others store their outcomes soon after their answers
		states := c.states(t, path)
		return states["forwarded "] == 1 && states["refused replayed"] == clients-1
	})
}

func (c *replicas) states(t *testing.T, path string) map[string]int {
	t.Helper()
	states := make(map[string]int)
	for _, p := range c.Records(t, "limit=1000") {
		if p.Path == path {
			states[string(p.State)+" "+p.Code]++
		}
	}
	return states
}

// Each session has its own complete chain. Only the next start of a killed replica closes what it left open.
func TestReplicasMakeReceipts(t *testing.T) {
	t.Parallel()
	c := newReplicas(t, kit.Self(t), kit.Database(t), 2, modelRule)
	const sessions, calls = 6, 5
	ids := make([]string, sessions)
	var all sync.WaitGroup
	for i := range sessions {
		r := c.all[i%len(c.all)]
		agent, path := c.agent(t, r), fmt.Sprintf("/posts/after-%d", i)
		answer := c.solvedBy(t, r, path)
		ids[i] = agent.Session.Session
		all.Go(func() {
			for range calls {
				callModel(agent)
			}
			agent.Header = answer
			if o := post(agent, path); o.Code != "" {
				t.Errorf("%s: %+v", path, o)
			}
		})
	}
	all.Wait()
	for i, id := range ids {
		chain := c.chainAt(t, c.all[i%len(c.all)], id, calls+1)
		if last := chain[calls]; last.Post == nil || last.Outcome != interaction.OutcomeCompleted {
			t.Errorf("the last receipt of %s is not that of its post: %+v", id, last)
		}
	}

	survivor, victim := c.all[0], c.all[1]
	staying, going := c.agent(t, survivor), c.agent(t, victim)
	kept, lost := staying.Session.Session, going.Session.Session
	arrived, let := make(chan struct{}), make(chan struct{})
	c.holdWith(func(*http.Request, http.ResponseWriter) { arrived <- struct{}{}; <-let })
	all.Go(func() { callModel(staying) })
	all.Go(func() { callModel(going) })
	<-arrived
	<-arrived
	c.restart(t, victim)
	chain := c.chainAt(t, victim, lost, 2)
	if chain[0].Outcome != interaction.OutcomeIndeterminate || chain[1].Closing == nil ||
		chain[1].Closing.Reason != interaction.ClosedLost {
		t.Errorf("the call that was open: %+v, the end: %+v", chain[0], chain[1])
	}
	if receipts := c.stored(t, kept); len(receipts) != 0 {
		t.Errorf("the open call of the other replica has %d receipts", len(receipts))
	}
	c.holdWith(nil)
	close(let)
	all.Wait()
	callModel(staying)
	if chain := c.chainAt(t, survivor, kept, 2); chain[0].Outcome == interaction.OutcomeIndeterminate ||
		chain[1].Closing != nil {
		t.Errorf("the chain of the other replica: %+v", chain)
	}
}

func (c *replicas) chainAt(t *testing.T, r *replica, session string, want int) []interaction.Receipt {
	t.Helper()
	deployment := *c.Deployment
	deployment.Dir = r.Dir
	at := &crashRig{Rig: &kit.Rig{Deployment: &deployment}, dsn: c.dsn}
	return at.waitForReceipts(t, session, want)
}
