package kit

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
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/gatetest"
)

// Node is a node alone: a process, the security team that certifies its key, and an owner whose sidecars' receipts a kit makes.
type Node struct {
	Team
	Kit    *gatetest.Kit
	Name   string // of this replica
	Public string // host and port
	HTTPS  *http.Client
	Cmd    *exec.Cmd
}

// NewNode prepares a node. more is added to its configuration.
func NewNode(t *testing.T, more string) *Node {
	t.Helper()
	full.Only(t, "processes")
	n := &Node{Team: NewTeam(t), Kit: gatetest.NewAt(t, time.Now().Add(-3*time.Hour).Truncate(time.Second)), Name: "one"}
	n.Kit.Observe(t)
	check.Must(t, os.Mkdir(n.At("owner"), 0o700))
	n.Kit.Files(t, n.At("owner"))
	n.Kit.WriteBundle(t, n.At("owner/bundle.json"), n.Kit.Certificates[evidence.PurposeInteraction])
	status, _, said := Invoke(t, "keys", "root", "--name", "auditor", "--out", n.Dir)
	if status != program.Done {
		t.Fatal(said)
	}
	check.Must(t, trial.WriteCertificates(n.Dir, "node.example"))
	n.configure(t, more)
	return n
}

// Replica prepares another node with the same team, owner and store.
func (n *Node) Replica(t *testing.T, more string) *Node {
	t.Helper()
	other := *n
	other.Name, other.Cmd = "two", nil
	other.configure(t, more)
	return &other
}

func (n *Node) At(name string) string { return filepath.Join(n.Dir, name) }

func (n *Node) Socket() string { return n.At(n.Name + ".sock") }

// configure writes the configuration of a replica.
func (n *Node) configure(t *testing.T, more string) {
	t.Helper()
	var err error
	n.Public, err = freeport.Address()
	check.Must(t, err)
	check.Must(t, os.Mkdir(n.At(n.Name), 0o700))
	check.Must(t, os.WriteFile(n.At(n.Name+".yaml"), []byte(strings.NewReplacer("NAME", n.Name, "PUBLIC", n.Public).Replace(nodeConfig)+more), 0o600))
	raw, err := os.ReadFile(n.At("api-ca.pem"))
	check.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	n.HTTPS = &http.Client{Timeout: Patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "node.example", MinVersion: tls.VersionTLS12}}}
	t.Cleanup(n.HTTPS.CloseIdleConnections)
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

// Begin starts the process, and returns once it answers.
func (n *Node) Begin(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	log, err := os.OpenFile(n.At(n.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check.Must(t, err)
	defer log.Close()
	cmd := exec.Command(self, "reputation", "--config", n.At(n.Name+".yaml"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	check.Must(t, cmd.Start())
	n.Cmd = cmd
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if raw, err := os.ReadFile(n.At(n.Name + ".log")); err == nil && t.Failed() {
			t.Logf("the node %s:\n%s", n.Name, raw)
		}
	})
	Until(t, Patience, "the node", func() bool { return admin.Get(t.Context(), "unix:"+n.Socket(), "/healthz", nil) == nil })
}

// Start starts the process, has its key certified, and returns once it is ready.
func (n *Node) Start(t *testing.T) {
	t.Helper()
	n.Begin(t)
	if status, _, said := n.Do(t, "certify", "--not-accessible-to-agent", "--not-accessible-to-users", "--from", "unix:"+n.Socket()); status != program.Done {
		t.Fatal(said)
	}
	Until(t, Patience, "the node to be ready", func() bool { return admin.Get(t.Context(), "unix:"+n.Socket(), "/readyz", nil) == nil })
}

// End sends a signal to the process, and waits for its end.
func (n *Node) End(t *testing.T, s syscall.Signal) error {
	t.Helper()
	check.Must(t, n.Cmd.Process.Signal(s))
	return n.Cmd.Wait()
}

// standing is what the node says of one session.
type standing struct {
	Next    int64
	Problem struct{ Code string }
}

// Deliver hands receipts of one session over at the internal endpoint.
func (n *Node) Deliver(t *testing.T, receipts ...string) (s standing, err error) {
	t.Helper()
	client, base := daemon.Client(config.Endpoint{Unix: n.Socket()})
	defer client.CloseIdleConnections()
	body, err := json.Marshal(map[string]any{"receipts": receipts})
	check.Must(t, err)
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

// Delivered hands all receipts over in batches of n, and returns the number that is wanted then.
func (n *Node) Delivered(t *testing.T, receipts []string, batch int) (next int64) {
	t.Helper()
	for part := range slices.Chunk(receipts, batch) {
		s, err := n.Deliver(t, part...)
		if err != nil || s.Problem.Code != "" {
			t.Fatalf("%+v, %v", s, err)
		}
		next = s.Next
	}
	return next
}

// Get asks the public address.
func (n *Node) Get(t *testing.T, path string, into any) (status int) {
	t.Helper()
	resp, err := n.HTTPS.Get("https://" + n.Public + path)
	check.Must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	if into != nil {
		check.Must(t, json.Unmarshal(raw, into))
	}
	return resp.StatusCode
}

// WantMetrics demands lines of the metrics.
func (n *Node) WantMetrics(t *testing.T, lines ...string) {
	t.Helper()
	client, base := daemon.Client(config.Endpoint{Unix: n.Socket()})
	defer client.CloseIdleConnections()
	resp, err := client.Get(base + "/metrics")
	check.Must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	for _, line := range lines {
		if !strings.Contains(string(raw), line+"\n") {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// Scored returns the score of a receipt's session, whose token is verified with what the team has signed.
func (n *Node) Scored(t *testing.T, receipt string) autonomy.Claims {
	t.Helper()
	var answer struct{ Token string }
	if status := n.Get(t, "/v1/score/"+evidence.HashToken(receipt), &answer); status != http.StatusOK {
		t.Fatalf("the node answers %d", status)
	}
	v, err := evidence.NewVerifier(n.Trusted(t), evidence.VerifierOptions{Now: time.Now})
	check.Must(t, err)
	o, err := evidence.Open(v, autonomy.Kind, answer.Token, evidence.Expected{
		Issuers: []string{"mediator-appraiser"}, Audiences: []string{"posting-api"}, KeyIDs: []string{"appraiser-one", "appraiser-two"}, MaxAge: autonomy.MaxLifetime,
	})
	check.Must(t, err)
	return o.Claims()
}

// Trusted is the team's trust, which believes what a strict manifest would.
func (n *Node) Trusted(t *testing.T) *evidence.Trust {
	t.Helper()
	raw, err := os.ReadFile(n.At("registry.jwk"))
	check.Must(t, err)
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	check.Must(t, err)
	b, _, err := config.ReadBundle(n.Bundle)
	check.Must(t, err)
	trust, err := evidence.NewTrust([]evidence.Root{root}, b, evidence.SignerPolicy{
		Expected:            evidence.Expected{Issuers: []string{"key-registry"}, Audiences: []string{"api"}, KeyIDs: []string{"registry"}, MaxAge: 365 * 24 * time.Hour},
		DenyAgentAccessible: true, DenyUserAccessible: true,
	})
	check.Must(t, err)
	return trust
}

// Calls are the receipts of a session with n calls.
func (n *Node) Calls(t *testing.T, session string, calls int) []string {
	t.Helper()
	s := n.Kit.Session(t, session)
	for range calls {
		s.Call(t, nil)
	}
	return s.Receipts
}
