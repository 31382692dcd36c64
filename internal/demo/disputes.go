package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
)

// pending is the result of a disputed signal.
const pending = "two posts, the dispute pending"

// wholeChain are the artifacts in the record of a document that was posted to the node.
var wholeChain = []string{
	"challenge", "originProof", "triggerReceipt", "policyDecision", "grant", "runtimeAttestation", "sessionReceipt",
	"deploymentCertificate", "capability", "requestProof", "agentStatement",
}

// state plays an agent that posts a document to the node. It returns an empty text if the record has the whole chain.
func state(ctx context.Context, d *trial.Deployment, path string, document dispute.Document) (string, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return "", err
	}
	r, err := run(ctx, d, "POST", "http://"+proxy.InternalHost+path, "--body", string(text))
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
	return "", nil
}

// contest plays an agent that publishes a signal, and another one that disputes it. It returns the state of the
// dispute, or what went wrong.
func (d *Demo) contest(
	ctx context.Context, publisher, challenger *trial.Deployment, name string,
) (c dispute.Contract, happened string, err error) {
	target, err := publisher.Agent()
	if err != nil {
		return c, "", err
	}
	by, err := challenger.Agent()
	if err != nil {
		return c, "", err
	}
	signal := dispute.Signal{
		SignalID: "sig_" + name, AgentID: target.String(), Statement: "The build is green.",
		Horizon: dispute.HorizonShort, Timestamp: time.Now().Unix(),
	}
	if wrong, err := state(ctx, publisher, "/v1/signals", signal); err != nil || wrong != "" {
		return c, wrong, err
	}
	c = dispute.Contract{
		ChallengeID: "con_" + name, OriginalSignalID: signal.SignalID, ChallengerAgentID: by.String(),
		CounterClaim: "It is red.", ReasoningTrace: "I looked.", Timestamp: time.Now().Unix(),
	}
	if wrong, err := state(ctx, challenger, "/v1/dispute", c); err != nil || wrong != "" {
		return c, wrong, err
	}
	hash, err := dispute.HashOf(c)
	if err != nil {
		return c, "", err
	}
	var at reputation.Dispute
	err = admin.Get(ctx, d.node(), "/v1/disputes/"+dispute.DisputeID(hash), &at)
	return c, "two posts, the dispute " + at.Status, err
}

// accused has the other owner's agent pass a verification and then dispute a signal of the agent.
func (d *Demo) accused(ctx context.Context) (happened string, err error) {
	if said, err := verified(d.other)(ctx); err != nil || said != wholeVerification {
		return "the other agent is not verified: " + said, err
	}
	// An agent can dispute signals that were published after the second in which it registered.
	if err := waitUntil(ctx, time.Now().Truncate(time.Second).Add(time.Second)); err != nil {
		return "", err
	}
	d.contested, happened, err = d.contest(ctx, d.own, d.other, "demo_1")
	return happened, err
}

func (d *Demo) accuses(ctx context.Context) (happened string, err error) {
	_, happened, err = d.contest(ctx, d.other, d.own, "demo_2")
	return happened, err
}

// decided has the arbiter, whose key belongs to neither owner, decide for the other owner's agent.
func (d *Demo) decided(ctx context.Context) (string, error) {
	hash, err := dispute.HashOf(d.contested)
	if err != nil {
		return "", err
	}
	id := dispute.DisputeID(hash)
	decision, err := keyring.Decide(ctx, d.arbiter, nodeAudience, time.Now, dispute.Decision{
		DisputeID: id, Document: hash, Outcome: accrual.ChallengerWins, Reason: "The build was red.",
	})
	if err != nil {
		return "", err
	}
	var at reputation.Dispute
	path, body := "/v1/disputes/"+id+"/resolution", map[string]string{"decision": decision}
	if err := admin.Call(ctx, d.node(), http.MethodPost, path, body, &at); err != nil {
		return "", err
	}
	if at.Provisional {
		return at.Outcome + ", provisional", nil
	}
	return at.Outcome, nil
}

// settled waits until the signal is final and the decision counts. It returns what both agents' reputations show.
func (d *Demo) settled(ctx context.Context) (string, error) {
	var lost, won accrual.Reputation
	var err error
	eventually(ctx, func(ctx context.Context) bool {
		if lost, err = d.reputation(ctx, d.own); err == nil {
			won, err = d.reputation(ctx, d.other)
		}
		return err != nil || lost.ChallengesLost > 0 && won.DisputesWon > 0
	})
	happened := fmt.Sprintf("lost %d", lost.ChallengesLost)
	if lost.Disputed {
		happened += ", disputed"
	}
	return happened + fmt.Sprintf("; won %d", won.DisputesWon), err
}

func (d *Demo) reputation(ctx context.Context, of *trial.Deployment) (said accrual.Reputation, err error) {
	agent, err := of.Agent()
	if err != nil {
		return said, err
	}
	err = admin.Get(ctx, d.node(), "/v1/reputation/"+url.PathEscape(agent.String()), &said)
	return said, err
}

func (d *Demo) node() string { return "unix:" + devstack.New(d.own.Dir).Socket("reputation") }
