package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// nodeRig is a node alone: a process, the security team that certifies its key, and an owner whose sidecars' receipts a kit makes.
type nodeRig struct {
	team
	kit    *gatetest.Kit
	name   string // of this replica
	public string // host and port
	https  *http.Client
	cmd    *exec.Cmd
}

// newNodeRig prepares a node. more is added to its configuration.
func newNodeRig(t *testing.T, more string) *nodeRig {
	t.Helper()
	full.Only(t, "processes")
	n := &nodeRig{team: newTeam(t), kit: gatetest.NewAt(t, time.Now().Add(-3*time.Hour).Truncate(time.Second)), name: "one"}
	n.kit.Observe(t)
	must(t, os.Mkdir(n.at("owner"), 0o700))
	n.kit.Files(t, n.at("owner"))
	n.kit.WriteBundle(t, n.at("owner/bundle.json"), n.kit.Certificates[evidence.PurposeInteraction])
	status, _, said := invoke(t, "keys", "root", "--name", "auditor", "--out", n.dir)
	if status != exitDone {
		t.Fatal(said)
	}
	must(t, trial.WriteCertificates(n.dir, "node.example"))
	n.configure(t, more)
	return n
}

// replica prepares another node with the same team, owner and store.
func (n *nodeRig) replica(t *testing.T, more string) *nodeRig {
	t.Helper()
	other := *n
	other.name, other.cmd = "two", nil
	other.configure(t, more)
	return &other
}

func (n *nodeRig) at(name string) string { return filepath.Join(n.dir, name) }

func (n *nodeRig) socket() string { return n.at(n.name + ".sock") }

// configure writes the configuration of a replica.
func (n *nodeRig) configure(t *testing.T, more string) {
	t.Helper()
	var err error
	n.public, err = freeport.Address()
	must(t, err)
	must(t, os.Mkdir(n.at(n.name), 0o700))
	must(t, os.WriteFile(n.at(n.name+".yaml"), []byte(strings.NewReplacer("NAME", n.name, "PUBLIC", n.public).Replace(nodeConfig)+more), 0o600))
	raw, err := os.ReadFile(n.at("api-ca.pem"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	n.https = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "node.example", MinVersion: tls.VersionTLS12}}}
	t.Cleanup(n.https.CloseIdleConnections)
}

const nodeConfig = `internal: {unix: NAME.sock}
public: {listen: "PUBLIC", tlsCertificate: api.pem, tlsKey: api.key}
state: NAME
custody: {type: memory}
keys:
  appraiser: {key: appraiser-NAME, issuer: mediator-appraiser, audience: posting-api, lifetime: 10m}
audience: node
trust: {registry: registry.jwk, auditor: auditor.jwk, bundle: trust.json}
owners:
  - name: us
    registry: owner/registry.jwk
    bundle: owner/bundle.json
    certificates: {issuers: [key-registry], audiences: [posting-api]}
    receipts: {issuers: [mediator-observer], audiences: [posting-api], keys: [interaction-receipt-key]}
believedHosts: [api.openai.com]
`

// begin starts the process, and returns once it answers.
func (n *nodeRig) begin(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	log, err := os.OpenFile(n.at(n.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer log.Close()
	cmd := exec.Command(self, "reputation", "--config", n.at(n.name+".yaml"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	n.cmd = cmd
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if raw, err := os.ReadFile(n.at(n.name + ".log")); err == nil && t.Failed() {
			t.Logf("the node %s:\n%s", n.name, raw)
		}
	})
	until(t, patience, "the node", func() bool { return admin.Get(t.Context(), "unix:"+n.socket(), "/healthz", nil) == nil })
}

// start starts the process, has its key certified, and returns once it is ready.
func (n *nodeRig) start(t *testing.T) {
	t.Helper()
	n.begin(t)
	if status, _, said := n.do(t, "certify", "--not-accessible-to-agent", "--not-accessible-to-users", "--from", "unix:"+n.socket()); status != exitDone {
		t.Fatal(said)
	}
	until(t, patience, "the node to be ready", func() bool { return admin.Get(t.Context(), "unix:"+n.socket(), "/readyz", nil) == nil })
}

// end sends a signal to the process, and waits for its end.
func (n *nodeRig) end(t *testing.T, s syscall.Signal) error {
	t.Helper()
	must(t, n.cmd.Process.Signal(s))
	return n.cmd.Wait()
}

// standing is what the node says of one session.
type standing struct {
	Next    int64
	Problem struct{ Code string }
}

// deliver hands receipts of one session over at the internal endpoint.
func (n *nodeRig) deliver(t *testing.T, receipts ...string) (s standing, err error) {
	t.Helper()
	client, base := daemon.Client(config.Endpoint{Unix: n.socket()})
	defer client.CloseIdleConnections()
	body, err := json.Marshal(map[string]any{"receipts": receipts})
	must(t, err)
	resp, err := client.Post(base+"/v1/receipts", "application/json", bytes.NewReader(body))
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	var answer struct{ Sessions []standing }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Sessions) != 1 {
		return s, fmt.Errorf("the node answers %d, %v", resp.StatusCode, err)
	}
	return answer.Sessions[0], nil
}

// delivered hands all receipts over in batches of n, and returns the number that is wanted then.
func (n *nodeRig) delivered(t *testing.T, receipts []string, batch int) (next int64) {
	t.Helper()
	for part := range slices.Chunk(receipts, batch) {
		s, err := n.deliver(t, part...)
		if err != nil || s.Problem.Code != "" {
			t.Fatalf("%+v, %v", s, err)
		}
		next = s.Next
	}
	return next
}

// get asks the public address.
func (n *nodeRig) get(t *testing.T, path string, into any) (status int) {
	t.Helper()
	resp, err := n.https.Get("https://" + n.public + path)
	must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	if into != nil {
		must(t, json.Unmarshal(raw, into))
	}
	return resp.StatusCode
}

// wantMetrics demands lines of the metrics.
func (n *nodeRig) wantMetrics(t *testing.T, lines ...string) {
	t.Helper()
	client, base := daemon.Client(config.Endpoint{Unix: n.socket()})
	defer client.CloseIdleConnections()
	resp, err := client.Get(base + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	for _, line := range lines {
		if !strings.Contains(string(raw), line+"\n") {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// scored returns the score of a receipt's session, whose token is verified with what the team has signed.
func (n *nodeRig) scored(t *testing.T, receipt string) autonomy.Claims {
	t.Helper()
	var answer struct{ Token string }
	if status := n.get(t, "/v1/score/"+evidence.HashToken(receipt), &answer); status != http.StatusOK {
		t.Fatalf("the node answers %d", status)
	}
	v, err := evidence.NewVerifier(n.trusted(t), evidence.VerifierOptions{Now: time.Now})
	must(t, err)
	o, err := evidence.Open(v, autonomy.Kind, answer.Token, evidence.Expected{
		Issuers: []string{"mediator-appraiser"}, Audiences: []string{"posting-api"}, KeyIDs: []string{"appraiser-one", "appraiser-two"}, MaxAge: autonomy.MaxLifetime,
	})
	must(t, err)
	return o.Claims()
}

// trusted is the team's trust, which believes what a strict manifest would.
func (n *nodeRig) trusted(t *testing.T) *evidence.Trust {
	t.Helper()
	raw, err := os.ReadFile(n.at("registry.jwk"))
	must(t, err)
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	must(t, err)
	b, _, err := config.ReadBundle(n.bundle)
	must(t, err)
	trust, err := evidence.NewTrust([]evidence.Root{root}, b, evidence.SignerPolicy{
		Expected:            evidence.Expected{Issuers: []string{"key-registry"}, Audiences: []string{"api"}, KeyIDs: []string{"registry"}, MaxAge: 365 * 24 * time.Hour},
		DenyAgentAccessible: true, DenyUserAccessible: true,
	})
	must(t, err)
	return trust
}

// calls are the receipts of a session with n calls.
func (n *nodeRig) calls(t *testing.T, session string, calls int) []string {
	t.Helper()
	s := n.kit.Session(t, session)
	for range calls {
		s.Call(t, nil)
	}
	return s.Receipts
}

// nodeStores are the stores that a node can have: what its configuration says of them.
func nodeStores(t *testing.T) map[string]func(t *testing.T) string {
	server := pgtest.Start(t)
	return map[string]func(t *testing.T) string{
		"a file": func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "dsn")
			must(t, os.WriteFile(path, []byte(server.Database(t)), 0o600))
			return "store: {postgres: {dsnFile: " + path + "}}\n"
		},
	}
}

// TestNode runs a node alone: it waits for its certificate, takes receipts, signs a score that verifies with public keys, serves nothing of the
// operators' at its public address, and ends well.
func TestNode(t *testing.T) {
	for name, store := range nodeStores(t) {
		t.Run(name, func(t *testing.T) {
			n := newNodeRig(t, store(t))
			n.begin(t)
			until(t, patience, "the node to say what it waits for", func() bool {
				err := admin.Get(t.Context(), "unix:"+n.socket(), "/readyz", nil)
				return err != nil && strings.Contains(err.Error(), "waits for a trust bundle that certifies this process's keys")
			})
			receipts := n.calls(t, "ses_1", 12)
			if s, err := n.deliver(t, receipts...); err == nil {
				t.Errorf("a node that is not ready takes receipts: %+v", s)
			}
			if err := n.end(t, syscall.SIGTERM); err == nil {
				t.Error("it says that it ended well, and has never been ready")
			}
			n.start(t)
			if next := n.delivered(t, receipts, 5); next != 13 {
				t.Errorf("the node wants receipt %d", next)
			}
			c := n.scored(t, receipts[3])
			if c.HeadNumber != 12 || c.Session != "ses_1" || c.Owner != n.kit.Owner(t) || c.HeadHash != evidence.HashToken(receipts[11]) || c.Closed {
				t.Errorf("the score is of %+v", c)
			}
			for _, path := range []string{"/metrics", "/v1/roles", "/v1/looks", "/readyz", "/v1/reload", "/v1/reputation", "/v1/sessions/ses_1/challenges"} {
				var p struct{ Code string }
				if status := n.get(t, path, &p); status != http.StatusNotFound || p.Code != "not_found" {
					t.Errorf("%s at the public address: %d %s", path, status, p.Code)
				}
			}
			n.wantMetrics(t, `mediator_node_requests_total{endpoint="receipts",status="200"} 3`, `mediator_node_requests_total{endpoint="score",status="200"} 1`,
				`mediator_node_requests_total{endpoint="other",status="404"} 5`, `mediator_node_requests_total{endpoint="reputation",status="404"} 1`, `mediator_node_request_seconds_count{endpoint="receipts"} 3`, `mediator_owner_bundle_refused{owner="us"} 0`)
			if resp, err := http.Get("http://" + n.public + "/openapi.json"); err == nil && resp.StatusCode == http.StatusOK {
				t.Error("the public address speaks plain HTTP")
			}
			must(t, n.end(t, syscall.SIGTERM))
			log, err := os.ReadFile(n.at("one.log"))
			must(t, err)
			if bytes.Contains(log, []byte(`"level":"error"`)) || bytes.Contains(log, []byte("password")) {
				t.Errorf("the log has\n%s", log)
			}
		})
	}
}

// TestNodeKilled kills the node while receipts come in, again and again: what it has acknowledged is there afterwards, and nothing twice.
func TestNodeKilled(t *testing.T) {
	for name, store := range nodeStores(t) {
		t.Run(name, func(t *testing.T) {
			n := newNodeRig(t, store(t))
			receipts := n.calls(t, "ses_1", 120)
			var acknowledged int64
			for _, enough := range []int64{10, 45, 80} {
				n.start(t)
				if s, err := n.deliver(t, receipts[0]); err != nil || s.Problem.Code != "" || s.Next < acknowledged {
					t.Fatalf("%d were acknowledged, and the node says %+v, %v", acknowledged, s, err)
				}
				killed := make(chan error, 1)
				for part := range slices.Chunk(receipts, 3) {
					s, err := n.deliver(t, part...)
					if err != nil {
						break // it was killed before it could answer
					}
					if s.Problem.Code != "" {
						t.Fatalf("%+v", s)
					}
					if acknowledged = max(acknowledged, s.Next); acknowledged > enough && n.cmd != nil {
						cmd := n.cmd
						n.cmd = nil
						go func() { // while the next ones come in
							_ = cmd.Process.Kill()
							killed <- cmd.Wait()
						}()
					}
				}
				if err := <-killed; err == nil {
					t.Fatal("the node was to be killed")
				}
			}
			n.start(t)
			if next := n.delivered(t, receipts, 50); next != 121 {
				t.Errorf("the node wants receipt %d", next)
			}
			if c := n.scored(t, receipts[119]); c.HeadNumber != 120 || c.HeadHash != evidence.HashToken(receipts[119]) {
				t.Errorf("the score is of %+v", c)
			}
		})
	}
}

// TestNodeReload: a reload takes owners and hosts, and nothing else; what is wrong leaves everything as it was.
func TestNodeReload(t *testing.T) {
	n := newNodeRig(t, "confine: {read: [owners]}\n")
	other := gatetest.NewAt(t, time.Now().Add(-3*time.Hour).Truncate(time.Second))
	other.Observe(t)
	must(t, os.MkdirAll(n.at("owners/two"), 0o700))
	other.Files(t, n.at("owners/two"))
	other.WriteBundle(t, n.at("owners/two/bundle.json"), other.Certificates[evidence.PurposeInteraction])
	n.start(t)
	s := other.Session(t, "ses_2")
	s.Call(t, nil)
	code := func() string {
		t.Helper()
		is, err := n.deliver(t, s.Receipts...)
		must(t, err)
		return is.Problem.Code
	}
	edit := func(old, new string) {
		t.Helper()
		raw, err := os.ReadFile(n.at("one.yaml"))
		must(t, err)
		if !bytes.Contains(raw, []byte(old)) {
			t.Fatalf("the configuration has no %q", old)
		}
		must(t, os.WriteFile(n.at("one.yaml"), bytes.Replace(raw, []byte(old), []byte(new), 1), 0o600))
	}
	reload := func(want string) {
		t.Helper()
		if status, _, said := invoke(t, "reload", "unix:"+n.socket()); (status == exitDone) != (want == "") || !strings.Contains(said, want) {
			t.Errorf("status %d: %s; want %q", status, said, want)
		}
	}
	const second = "  - {name: two, registry: owners/two/registry.jwk, bundle: owners/two/bundle.json, certificates: {issuers: [key-registry], audiences: [posting-api]}, " +
		"receipts: {issuers: [mediator-observer], audiences: [posting-api], keys: [interaction-receipt-key]}}\nbelievedHosts"
	if got := code(); got != "owner_unknown" {
		t.Errorf("receipts of an owner that is not known: %s", got)
	}
	edit("believedHosts", strings.Replace(second, "two/bundle", "two/absent", 1))
	reload("no such file or directory (reload_refused)")
	edit("two/absent", "two/bundle")
	edit("issuer: mediator-appraiser", "issuer: other")
	reload("keys.appraiser.issuer (restart_required)")
	if got := code(); got != "owner_unknown" {
		t.Errorf("after reloads that were refused: %s", got)
	}
	edit("issuer: other", "issuer: mediator-appraiser")
	edit("believedHosts: [api.openai.com]", "believedHosts: [other.example]")
	reload("")
	if got := code(); got != "" {
		t.Errorf("receipts of the new owner: %s", got)
	}
	if c := n.scored(t, s.Receipts[0]); c.N != 0 || c.OtherCalls != 1 {
		t.Errorf("%d calls count and %d do not, after the host of their model was taken out", c.N, c.OtherCalls)
	}
	edit(strings.TrimSuffix(second, "believedHosts"), "")
	reload("")
	s.Call(t, nil)
	if got := code(); got != "owner_unknown" {
		t.Errorf("receipts of an owner that was taken out: %s", got)
	}
	elsewhere := t.TempDir()
	other.Files(t, elsewhere)
	edit("believedHosts", strings.ReplaceAll(second, "owners/two", elsewhere)) // a folder that it has taken from itself
	reload("restart_required")
}

// TestNodeReplicas runs two nodes on one database: what one takes the other knows, and receipts at both count once.
func TestNodeReplicas(t *testing.T) {
	store := nodeStores(t)["PostgreSQL"](t)
	one := newNodeRig(t, store)
	two := one.replica(t, store)
	one.start(t)
	two.start(t)
	receipts := one.calls(t, "ses_1", 60)
	done := make(chan error, 2)
	for _, n := range []*nodeRig{one, two} {
		go func() {
			for part := range slices.Chunk(receipts, 4) {
				for {
					s, err := n.deliver(t, part...)
					if err != nil {
						done <- err
						return
					}
					if s.Problem.Code == "" {
						break
					}
					if s.Problem.Code != "overloaded" {
						done <- fmt.Errorf("%+v", s)
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		must(t, <-done)
	}
	for _, n := range []*nodeRig{one, two} {
		if c := n.scored(t, receipts[0]); c.HeadNumber != 60 || c.HeadHash != evidence.HashToken(receipts[59]) {
			t.Errorf("the score of the node %s is of %+v", n.name, c)
		}
	}
}

// TestNodeLimits: the limits of the configuration are in force.
func TestNodeLimits(t *testing.T) {
	n := newNodeRig(t, "limits: {sessions: 1, receipts: 3, publicPerSecond: 1000}\n")
	n.start(t)
	for range 150 { // more than the default lets one address ask at once
		if status := n.get(t, "/openapi.json", nil); status != http.StatusOK {
			t.Fatalf("the node answers %d", status)
		}
	}
	receipts := n.calls(t, "ses_1", 4)
	n.delivered(t, receipts[:2], 2)
	for what, further := range map[string][]string{"a second session": n.calls(t, "ses_2", 1), "a fourth receipt": receipts[2:]} {
		if s, err := n.deliver(t, further...); err != nil || s.Problem.Code != "owner_full" {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	if next := n.delivered(t, receipts[2:3], 1); next != 4 {
		t.Errorf("the node wants receipt %d", next)
	}
}
