package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
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

// window is how long a signal of the demo can be disputed: long enough on a slow machine for an agent to start and post, short enough to wait for.
const window = 20 * time.Second

// dispute has the agents of both owners publish and dispute at the node, and an arbiter decide.
func (d *Deployment) dispute(content map[string][]byte) error {
	content[devstack.SidecarFile] = []byte(Speaking(string(content[devstack.SidecarFile])))
	content[devstack.ManifestFile] = WithStatements(content[devstack.ManifestFile])
	node := WithDisputes(string(content[devstack.ReputationFile]), "arbiter: arbiter.jwk, windows: {short: "+window.String()+"}")
	content[devstack.ReputationFile] = []byte(strings.Replace(node, "\nbelievedHosts:", "\n"+otherOwner+"believedHosts:", 1))
	var err error
	if d.arbiter, _, err = keyring.GenerateRoot("arbiter", false); err != nil {
		return err
	}
	content["arbiter.jwk"], err = d.arbiter.JWK()
	return err
}

// stated is what becomes of a document that goes to the node as a post. wholeChain is what the record then has, with what the sidecar has signed of the
// document itself.
const stated = "200, the whole chain"

var wholeChain = []string{
	"challenge", "originProof", "triggerReceipt", "policyDecision", "grant", "runtimeAttestation", "sessionReceipt", "deploymentCertificate", "capability",
	"requestProof", "agentStatement",
}

// state plays an agent that sends a document to the node, by a post.
func (d *Deployment) state(ctx context.Context, path string, document dispute.Document) (string, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return "", err
	}
	r, err := d.byWebhook(ctx, "POST", "http://"+proxy.InternalHost+path, "--body", string(text))
	if err != nil || r.Code != "" || r.Post == "" {
		return r.Outcome(), err
	}
	var record ledger.Record
	if err := admin.Get(ctx, d.Stack.Admin(), "/v1/posts/"+r.Post, &record); err != nil {
		return "", err
	}
	for _, name := range wholeChain {
		if !slices.ContainsFunc(record.Artifacts, func(a ledger.Artifact) bool { return a.Name == name }) {
			return r.Outcome() + ", without " + name, nil
		}
	}
	return stated, nil
}

// contest plays an agent of one deployment that publishes a signal, which the agent of the other disputes. It says where the dispute stands, or which
// of both posts went wrong.
func (d *Deployment) contest(ctx context.Context, signals, disputes *Deployment, name string) (c dispute.Contract, said string, err error) {
	target, err := signals.Agent()
	if err != nil {
		return c, "", err
	}
	challenger, err := disputes.Agent()
	if err != nil {
		return c, "", err
	}
	signal := dispute.Signal{
		SignalID: "sig_" + name, AgentID: target.String(), Statement: "The build is green.", Horizon: dispute.HorizonShort, Timestamp: time.Now().Unix(),
	}
	published, err := signals.state(ctx, "/v1/signals", signal)
	if err != nil || published != stated {
		return c, published, err
	}
	c = dispute.Contract{
		ChallengeID: "con_" + name, OriginalSignalID: signal.SignalID, ChallengerAgentID: challenger.String(), CounterClaim: "It is red.", ReasoningTrace: "I looked.",
		Timestamp: time.Now().Unix(),
	}
	filed, err := disputes.state(ctx, "/v1/dispute", c)
	if err != nil || filed != stated {
		return c, filed, err
	}
	id, _, err := nameOf(c)
	if err != nil {
		return c, "", err
	}
	var at reputation.Dispute
	err = admin.Get(ctx, d.node(), "/v1/disputes/"+id, &at)
	return c, "two posts, the dispute " + at.Status, err
}

// accused plays the agent, which publishes a signal, and the other owner's, which passes a verification and then disputes it.
func (d *Deployment) accused(ctx context.Context) (said string, err error) {
	if said, err := d.other.verified(ctx); err != nil || said != wholeVerification {
		return "the other agent is not verified: " + said, err
	}
	// An agent can dispute the signals that are published after the second in which it was registered.
	if err := waitFor(ctx, time.Until(time.Now().Truncate(time.Second).Add(time.Second))); err != nil {
		return "", err
	}
	d.contested, said, err = d.contest(ctx, d, d.other, "demo_1")
	return said, err
}

// accuses plays the other owner's agent, which publishes a signal in turn, and the agent, which disputes it.
func (d *Deployment) accuses(ctx context.Context) (said string, err error) {
	_, said, err = d.contest(ctx, d.other, d, "demo_2")
	return said, err
}

// decided plays the arbiter, whose key belongs to neither owner. It decides for the other owner's agent.
func (d *Deployment) decided(ctx context.Context) (string, error) {
	id, document, err := nameOf(d.contested)
	if err != nil {
		return "", err
	}
	decision, err := keyring.Decide(ctx, d.arbiter, nodeAudience, time.Now, dispute.Decision{
		DisputeID: id, Document: document, Outcome: accrual.ChallengerWins, Reason: "The build was red.",
	})
	if err != nil {
		return "", err
	}
	var at reputation.Dispute
	if err := admin.Call(ctx, d.node(), http.MethodPost, "/v1/disputes/"+id+"/resolution", map[string]string{"decision": decision}, &at); err != nil {
		return "", err
	}
	if at.Provisional {
		return at.Outcome + ", provisional", nil
	}
	return at.Outcome, nil
}

// settled waits until the signal is final, so that the decision counts. It says what the reputations of both agents show of it.
func (d *Deployment) settled(ctx context.Context) (string, error) {
	var lost, won accrual.Reputation
	var err error
	eventually(ctx, func(ctx context.Context) bool {
		if lost, err = d.reputation(ctx, d); err == nil {
			won, err = d.reputation(ctx, d.other)
		}
		return err != nil || lost.ChallengesLost > 0 && won.DisputesWon > 0
	})
	said := fmt.Sprintf("lost %d", lost.ChallengesLost)
	if lost.Disputed {
		said += ", disputed"
	}
	return said + fmt.Sprintf("; won %d", won.DisputesWon), err
}

// reputation asks the node of d for the reputation of the agent of a deployment.
func (d *Deployment) reputation(ctx context.Context, of *Deployment) (accrual.Reputation, error) {
	agent, err := of.Agent()
	if err != nil {
		return accrual.Reputation{}, err
	}
	var said accrual.Reputation
	err = admin.Get(ctx, d.node(), "/v1/reputation/"+url.PathEscape(agent.String()), &said)
	return said, err
}

// node returns the endpoint of the deployment's node.
func (d *Deployment) node() string { return "unix:" + devstack.New(d.Dir).Socket("reputation") }

// nameOf returns the id of the dispute that a contract opens, and the hash of the contract.
func nameOf(c dispute.Contract) (id, hash string, err error) {
	hash, err = c.Hash()
	return dispute.DisputeID(hash), hash, err
}

// Agent returns the agent of the deployment, as the node knows it.
func (d *Deployment) Agent() (accrual.Agent, error) {
	raw, err := os.ReadFile(filepath.Join(d.Dir, devstack.RegistryFile))
	if err != nil {
		return accrual.Agent{}, err
	}
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	return accrual.Agent{Owner: interaction.Owner(root.Public), Subject: "agent:worker-1"}, err
}
