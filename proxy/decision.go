package proxy

import (
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

// triggerEvidence is step 5: origin proof and trigger receipt for this event and this binding, both opened. The gate compares them with
// everything else, but only the sidecar knows for which event it has asked.
func (p *Pipeline) triggerEvidence(ctx context.Context, t *posting) error {
	e, err := p.o.Triggers.Evidence(ctx, t.session.Event.ID, t.binding)
	if err != nil {
		return err
	}
	t.envelope.OriginProof, t.envelope.TriggerReceipt = e.OriginProof, e.TriggerReceipt
	t.artifact("originProof", e.OriginProof)
	t.artifact("triggerReceipt", e.TriggerReceipt)
	t.opened.OriginProof, err = evidence.Open(p.o.Verifier, evidence.TriggerOriginProofKind, e.OriginProof, p.o.Strict.Origin.Expected)
	if t.check("received origin proof", err) != nil {
		return err
	}
	t.opened.TriggerReceipt, err = evidence.Open(p.o.Verifier, evidence.TriggerReceiptKind, e.TriggerReceipt, p.o.Strict.Receipt.Expected)
	r := t.opened.TriggerReceipt.Claims()
	if err == nil && (r.EventID != t.session.Event.ID || r.BindingHash != t.record.BindingHash || r.OriginProofHash != t.opened.OriginProof.Hash()) {
		err = refusal.New("receipt_mismatch", "the trigger receipt is for another event, binding or origin proof")
	}
	return t.check("received trigger receipt", err)
}

// decide is step 6: the control plane's decision and grant for exactly this, both opened. A gate accepts a grant over several decisions;
// the sidecar asked for one. The attestations do not depend on the answer, so the sidecar signs them meanwhile. The record of a post that is not allowed has
// them too, so that a record accounts for everything that is signed.
func (p *Pipeline) decide(ctx context.Context, t *posting) error {
	p.beginAttest(t)
	err := p.askControl(ctx, t)
	if err != nil {
		_ = p.attest(ctx, t) // the post is refused for err
	}
	return err
}

// askControl gets the decision and the grant. The record keeps the reputation token if the decision names it.
func (p *Pipeline) askControl(ctx context.Context, t *posting) error {
	reputation := p.reputation(ctx, t)
	d, err := p.o.Control.Decide(ctx, policy.Request{
		Binding: t.binding, ChallengeID: t.envelope.Response.ChallengeID, RuntimeID: p.o.RuntimeID, SessionID: t.session.ID,
		EnvironmentHash: p.o.EnvironmentHash, ManifestHash: p.o.Strict.ManifestHash, OriginProof: t.envelope.OriginProof, TriggerReceipt: t.envelope.TriggerReceipt,
		Reputation: reputation,
		Call: policy.Call{
			Method: t.r.Method, Scheme: t.target.Scheme, Host: t.target.Authority(), Path: t.r.URL.EscapedPath(),
			Rule: t.action.Name, ContentKind: t.action.Content, Size: t.content.Size, Message: t.message,
		},
	})
	if err != nil {
		return err
	}
	t.envelope.PolicyDecision, t.envelope.Grant = d.PolicyDecision, d.Grant
	t.artifact("policyDecision", d.PolicyDecision)
	t.artifact("grant", d.Grant)
	t.opened.PolicyDecision, err = evidence.Open(p.o.Verifier, evidence.PolicyDecisionKind, d.PolicyDecision, p.o.Strict.Decision)
	if named := t.opened.PolicyDecision.Claims().ReputationHash; err == nil && named != "" {
		if reputation == "" || evidence.HashToken(reputation) != named {
			err = refusal.New("decision_other_reputation", "the policy decision names another reputation token than the sidecar has sent")
		} else {
			t.artifact("reputation", reputation)
		}
	}
	if t.check("received decision", err) != nil {
		return err
	}
	t.opened.Grant, err = evidence.Open(p.o.Verifier, evidence.ActionGrantKind, d.Grant, p.o.Strict.Grant)
	if rests := t.opened.Grant.Claims().PolicyDecisionHashes; err == nil && (len(rests) != 1 || rests[0] != t.opened.PolicyDecision.Hash()) {
		err = refusal.New("grant_other_decision", "the grant is for another decision")
	}
	return t.check("received grant", err)
}

// reputation returns the reputation token of the agent that posts, or nothing where there is none, or no rule may ask for it.
func (p *Pipeline) reputation(ctx context.Context, t *posting) string {
	if p.o.Reputations == nil || p.o.Strict.Autonomy.MaxAge == 0 {
		return ""
	}
	return p.o.Reputations.Token(ctx, t.binding.Subject, p.o.Strict.Autonomy.MaxAge)
}
