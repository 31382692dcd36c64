package kit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/gatetest"
)

// NodeRig is a node alone: its process, the security team that certifies its key, and an owner whose receipts a kit
// makes.
type NodeRig struct {
	Team
	Kit    *gatetest.Kit
	Name   string // of this replica
	Public string // host and port
	HTTPS  *http.Client
	Cmd    *exec.Cmd
	Binary string // runs instead of the test's own
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

// NewNode prepares a node with these further lines of configuration.
func NewNode(t *testing.T, more string) *NodeRig {
	t.Helper()
	full.Only(t, "processes")
	kit := gatetest.NewAt(t, time.Now().Add(-3*time.Hour).Truncate(time.Second))
	n := &NodeRig{Team: NewTeam(t), Kit: kit, Name: "one"}
	kit.Observe(t)
	check.Must(t, os.Mkdir(n.At("owner"), 0o700))
	kit.Files(t, n.At("owner"))
	kit.WriteBundle(t, n.At("owner/bundle.json"), kit.Certificates[evidence.PurposeInteraction])
	Run(t, "keys", "root", "--name", "auditor", "--out", n.Dir)
	check.Must(t, trial.WriteCertificates(n.Dir, "node.example"))
	n.configure(t, more)
	return n
}

// Replica prepares another node with the same team, owner and store.
func (n *NodeRig) Replica(t *testing.T, more string) *NodeRig {
	t.Helper()
	other := *n
	other.Name, other.Cmd = "two", nil
	other.configure(t, more)
	return &other
}

func (n *NodeRig) configure(t *testing.T, more string) {
	t.Helper()
	var err error
	n.Public, err = freeport.Address()
	check.Must(t, err)
	check.Must(t, os.Mkdir(n.At(n.Name), 0o700))
	Write(t, n.At(n.Name+".yaml"), strings.NewReplacer("NAME", n.Name, "PUBLIC", n.Public).Replace(nodeConfig)+more)
	trust := TLSConfig(t, n.At("api-ca.pem"))
	trust.ServerName = "node.example"
	n.HTTPS = &http.Client{Timeout: Patience, Transport: &http.Transport{TLSClientConfig: trust}}
	t.Cleanup(n.HTTPS.CloseIdleConnections)
}

// Socket is the path of the internal endpoint.
func (n *NodeRig) Socket() string { return n.At(n.Name + ".sock") }

// Internal is the internal endpoint.
func (n *NodeRig) Internal() string { return "unix:" + n.Socket() }

// Begin starts the process, and returns once it answers.
func (n *NodeRig) Begin(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(n.At(n.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check.Must(t, err)
	defer log.Close()
	cmd := exec.Command(cmp.Or(n.Binary, Self(t)), "reputation", "--config", n.At(n.Name+".yaml"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	check.Must(t, cmd.Start())
	n.Cmd = cmd
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the node %s:\n%s", n.Name, Read(t, n.At(n.Name+".log")))
		}
	})
	Until(t, "the node", func() bool { return admin.Get(t.Context(), n.Internal(), "/healthz", nil) == nil })
}

// Start starts the process, certifies its key, and returns once it is ready.
func (n *NodeRig) Start(t *testing.T) {
	t.Helper()
	n.Begin(t)
	n.Must(t, "certify", "--not-accessible-to-agent", "--not-accessible-to-users", "--from", n.Internal())
	Until(t, "the node to be ready", func() bool { return admin.Get(t.Context(), n.Internal(), "/readyz", nil) == nil })
}

// End sends a signal to the process, and waits for its end.
func (n *NodeRig) End(t *testing.T, s syscall.Signal) error {
	t.Helper()
	check.Must(t, n.Cmd.Process.Signal(s))
	return n.Cmd.Wait()
}

// Reload reloads the node's configuration. It must be refused with want, or succeed if want is empty.
func (n *NodeRig) Reload(t *testing.T, want string) {
	t.Helper()
	if e := Mediator(t, "reload", n.Internal()); want == "" {
		e.Done()
	} else {
		e.Refused(want)
	}
}

// Standing is what the node says of one session: the receipt that it wants next, or the refusal.
type Standing struct {
	Next    int64
	Problem struct{ Code string }
}

// Deliver hands receipts of one session over at the internal endpoint.
func (n *NodeRig) Deliver(t *testing.T, receipts ...string) (s Standing, err error) {
	t.Helper()
	client, base := endpoint.Client(config.Peer{Unix: n.Socket()}, nil)
	defer client.CloseIdleConnections()
	body, err := json.Marshal(map[string]any{"receipts": receipts})
	check.Must(t, err)
	resp, err := client.Post(base+"/v1/receipts", "application/json", bytes.NewReader(body))
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	var answer struct{ Sessions []Standing }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Sessions) != 1 {
		return s, fmt.Errorf("the node answers %d, %v", resp.StatusCode, err)
	}
	return answer.Sessions[0], nil
}

// Delivered hands all receipts over in batches, and returns the number that the node wants next.
func (n *NodeRig) Delivered(t *testing.T, receipts []string, batch int) (next int64) {
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
func (n *NodeRig) Get(t *testing.T, path string, into any) (status int) {
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

// WantMetrics fails if the node does not export these lines.
func (n *NodeRig) WantMetrics(t *testing.T, lines ...string) {
	t.Helper()
	metrics := Metrics(t, n.Socket())
	for _, line := range lines {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// Scored returns the score of a receipt's session, once its token is verified with the team's public keys.
func (n *NodeRig) Scored(t *testing.T, receipt string) autonomy.Claims {
	t.Helper()
	var answer struct{ Token string }
	if status := n.Get(t, "/v1/score/"+evidence.HashToken(receipt), &answer); status != http.StatusOK {
		t.Fatalf("the node answers %d", status)
	}
	return Opened(t, n, autonomy.Kind, answer.Token, autonomy.MaxLifetime)
}

// Opened verifies an artifact of the node with the team's public keys, as a strict manifest would.
func Opened[C any](t *testing.T, n *NodeRig, kind evidence.Kind[C], token string, maxAge time.Duration) C {
	t.Helper()
	trust := n.Trust(t, evidence.SignerPolicy{
		Expected: evidence.Expected{
			Issuers: []string{"key-registry"}, Audiences: []string{"api"}, KeyIDs: []string{"registry"},
			MaxAge: 365 * 24 * time.Hour,
		},
		DenyAgentAccessible: true, DenyUserAccessible: true,
	})
	v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: time.Now})
	check.Must(t, err)
	o, err := evidence.Open(v, kind, token, evidence.Expected{
		Issuers: []string{"mediator-appraiser"}, Audiences: []string{"posting-api"},
		KeyIDs: []string{"appraiser-one", "appraiser-two"}, MaxAge: maxAge,
	})
	check.Must(t, err)
	return o.Claims()
}

// Calls makes the receipts of a session with so many calls.
func (n *NodeRig) Calls(t *testing.T, session string, calls int) []string {
	t.Helper()
	s := n.Kit.Session(t, session)
	for range calls {
		s.Call(t, nil)
	}
	return s.Receipts
}

// RegisterAgents makes agents known, some days ago, to a node whose state is in this folder and whose process does not run.
func RegisterAgents(t *testing.T, state string, agents ...string) {
	t.Helper()
	s, err := verification.Open(t.Context(), state+"/verification.db", "", time.Now)
	check.Must(t, err)
	defer s.Close()
	at := time.Now().Add(-10 * 24 * time.Hour)
	session := verification.Session{ID: "registered", Opened: at.UnixMilli(), State: verification.Completed}
	check.Must(t, s.Begin(t.Context(), session, 1, 1))
	check.Must(t, s.Update(t.Context(), session, verification.Effects{Agents: agents, At: at}))
}
