package demo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/verification/client"
)

// WithStatements returns a manifest of version 1.0 or 1.1 as one of version 1.1 that lets a stack's own sidecar sign what its agent publishes.
func WithStatements(manifest []byte) []byte {
	return append(bytes.Replace(manifest, []byte(`version: "1.0"`), []byte(`version: "1.1"`), 1), `
# What the sidecar signs of its agent's signals and disputes.
agentStatementPolicy:
  allowedIssuers: [mediator-speaker]
  allowedAudiences: [posting-api]
  allowedKeyIds: [agent-statement-key]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxStatementAgeMs: 15000
`...)
}

// speakingRules let the agent publish signals and disputes.
const speakingRules = `
  - name: signals
    match: {url: "http://mediator.internal/v1/signals", methods: [POST]}
    subject: agent:worker-1
    action: publish_signal
  - name: disputes
    match: {url: "http://mediator.internal/v1/dispute", methods: [POST]}
    subject: agent:worker-1
    action: open_dispute
`

// Speaking returns the configuration of a stack's sidecar with rules by which its agent publishes, and the key that signs that. Other files stay as they are.
func Speaking(sidecar string) string {
	const observer = "  interactionReceipt: {key: interaction-receipt-key, issuer: mediator-observer}\n"
	if !strings.Contains(sidecar, observer) {
		return sidecar
	}
	sidecar = strings.Replace(sidecar, observer, observer+"  agentStatement: {key: agent-statement-key, issuer: mediator-speaker}\n", 1)
	return strings.Replace(sidecar, "\nactions:\n", "\nactions:"+speakingRules, 1)
}

// WithDisputes returns the configuration of a stack's node as one that takes signals and disputes of the stack's own agents, and of agents elsewhere.
// disputes is the block of its configuration.
func WithDisputes(node, disputes string) string {
	const receipts = "    receipts: {issuers: [mediator-observer], audiences: [posting-api], keys: [interaction-receipt-key]}\n"
	return strings.Replace(node, receipts, receipts+"    statements: {issuers: [mediator-speaker], audiences: [posting-api], keys: [agent-statement-key]}\n", 1) +
		"\ndisputes: {" + disputes + "}\n"
}

// nodeHost is the name of the node at its public address.
const nodeHost = "node.demo.test"

// dispute has the agent publish and dispute at the node, where agents elsewhere come too.
func (d *Deployment) dispute(content map[string][]byte) {
	content[devstack.SidecarFile] = []byte(Speaking(string(content[devstack.SidecarFile])))
	content[devstack.ManifestFile] = WithStatements(content[devstack.ManifestFile])
	content[devstack.ReputationFile] = fmt.Appendf([]byte(WithDisputes(string(content[devstack.ReputationFile]), "")), "public: {listen: %q, tlsCertificate: api.pem, tlsKey: api.key}\n", d.NodeAddr)
}

// stranger is an agent of somebody else: it has a key of its own, no mediator, and reaches the node at its public address.
type stranger struct {
	id     string
	key    ed25519.PrivateKey
	client *http.Client
}

// newStranger makes an agent elsewhere, which passes a verification as a script does: without one it could dispute nothing.
func (d *Deployment) newStranger(ctx context.Context) (*stranger, error) {
	raw, err := os.ReadFile(filepath.Join(d.Dir, "api-ca.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	there := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, d.NodeAddr)
	}}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	n, err := client.Dial(ctx, "https://"+nodeHost+"/mcp", there)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	r, err := verifyAs(ctx, n, key, "stranger")
	if err == nil && !r.Success {
		err = fmt.Errorf("the agent elsewhere did not pass: %s", strings.Join(r.Violations, ", "))
	}
	return &stranger{evidence.DIDKey([]byte(public)), key, &http.Client{Transport: there, Timeout: 10 * time.Second}}, err
}

// publish signs a document and sends it to the node. It returns the node's answer.
func (s *stranger) publish(ctx context.Context, path string, document dispute.Document) (status string, err error) {
	text, err := dispute.Unsigned(document)
	if err != nil {
		return "", err
	}
	signature := base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.key, text))
	raw := append(bytes.TrimSuffix(text, []byte("}")), `,"signature":"`+signature+`"}`...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+nodeHost+path, bytes.NewReader(raw))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", problem.Read(resp)
	}
	var said struct {
		Status string `json:"status"`
	}
	err = json.NewDecoder(resp.Body).Decode(&said)
	return said.Status, err
}

// published plays an agent that publishes a signal, which an agent elsewhere disputes. It says what became of the post, and of the dispute.
func (d *Deployment) published(ctx context.Context) (string, error) {
	id, err := d.ownID()
	if err != nil {
		return "", err
	}
	if d.other, err = d.newStranger(ctx); err != nil {
		return "", err
	}
	// Whoever disputes has to be registered before, by the second.
	if err := waitFor(ctx, time.Until(time.Now().Truncate(time.Second).Add(time.Second))); err != nil {
		return "", err
	}
	text, err := json.Marshal(signal("sig_demo_1", id))
	if err != nil {
		return "", err
	}
	r, err := d.byWebhook(ctx, "POST", "http://"+proxy.InternalHost+"/v1/signals", "--body", string(text))
	if err != nil || r.Code != "" {
		return r.Outcome(), err
	}
	status, err := d.other.publish(ctx, "/v1/dispute", contract("con_demo_1", "sig_demo_1", d.other.id))
	return r.Outcome() + ", the dispute " + status, err
}

// disputed plays an agent that disputes a signal of the agent elsewhere in turn, by a post.
func (d *Deployment) disputed(ctx context.Context) (string, error) {
	id, err := d.ownID()
	if err != nil || d.other == nil {
		return "", cmp.Or(err, errors.New("there is no agent elsewhere"))
	}
	status, err := d.other.publish(ctx, "/v1/signals", signal("sig_demo_2", d.other.id))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(contract("con_demo_2", "sig_demo_2", id))
	if err != nil {
		return "", err
	}
	r, err := d.byWebhook(ctx, "POST", "http://"+proxy.InternalHost+"/v1/dispute", "--body", string(text))
	return "the signal " + status + ", " + r.Outcome(), err
}

func signal(id, agent string) dispute.Signal {
	return dispute.Signal{SignalID: id, AgentID: agent, Statement: "The build is green.", Horizon: dispute.HorizonShort, Timestamp: time.Now().Unix()}
}

func contract(id, signal, agent string) dispute.Contract {
	return dispute.Contract{
		ChallengeID: id, OriginalSignalID: signal, ChallengerAgentID: agent, CounterClaim: "It is red.", ReasoningTrace: "I looked.", Timestamp: time.Now().Unix(),
	}
}

// ownID is how the node names the agent of the deployment.
func (d *Deployment) ownID() (string, error) {
	raw, err := os.ReadFile(filepath.Join(d.Dir, devstack.RegistryFile))
	if err != nil {
		return "", err
	}
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	return accrual.Agent{Owner: interaction.Owner(root.Public), Subject: "agent:worker-1"}.String(), err
}
