package proxy

import (
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

// triggerEvidence is step 5: it gets and opens origin proof and trigger receipt for this event and binding. The gate
// compares everything but the event: only the sidecar knows which one it asked about.
func (t *posting) triggerEvidence(ctx context.Context) error {
	e, err := t.p.o.Triggers.Evidence(ctx, t.session.Event.ID, t.binding)
	if err != nil {
		return err
	}
	t.envelope.OriginProof, t.envelope.TriggerReceipt = e.OriginProof, e.TriggerReceipt
	t.artifact("originProof", e.OriginProof)
	t.artifact("triggerReceipt", e.TriggerReceipt)
	v, strict := t.p.o.Verifier, t.p.o.Strict
	t.opened.OriginProof, err = evidence.Open(v, evidence.TriggerOriginProofKind(), e.OriginProof,
		strict.Origin.Expected)
	if err = t.check("received origin proof", err); err != nil {
		return err
	}
	t.opened.TriggerReceipt, err = evidence.Open(v, evidence.TriggerReceiptKind(), e.TriggerReceipt,
		strict.Receipt.Expected)
	r := t.opened.TriggerReceipt.Claims()
	mine := r.EventID == t.session.Event.ID && r.BindingHash == t.record.BindingHash
	if err == nil && (!mine || r.OriginProofHash != t.opened.OriginProof.Hash()) {
		err = refusal.New("artifacts_mismatch", "the trigger receipt is for another event, binding or origin proof")
	}
	return t.check("received trigger receipt", err)
}

// decide is step 6: it gets and opens the control plane's decision and grant for exactly this post. The sidecar
// meanwhile signs the attestations, which do not depend on them. A denied post's record has them too: it accounts for
// everything signed.
func (t *posting) decide(ctx context.Context) error {
	t.beginAttest()
	err := t.askControl(ctx)
	if err != nil {
		_ = t.attest(ctx) // only completes the record: err is the reason
	}
	return err
}

// askControl gets decision and grant. The record keeps the reputation token if the decision names it.
func (t *posting) askControl(ctx context.Context) error {
	o := &t.p.o
	reputation := t.reputation(ctx)
	d, err := o.Control.Decide(ctx, policy.Request{
		Binding: t.binding, ChallengeID: t.envelope.Response.ChallengeID, RuntimeID: o.RuntimeID,
		SessionID:       t.session.ID,
		EnvironmentHash: o.EnvironmentHash, ManifestHash: o.Strict.ManifestHash,
		OriginProof: t.envelope.OriginProof, TriggerReceipt: t.envelope.TriggerReceipt, Reputation: reputation,
		Call: policy.Call{
			Method: t.r.Method, Scheme: t.target.Scheme, Host: t.target.Authority(), Path: t.r.URL.EscapedPath(),
			Rule: t.action.Name, ContentKind: t.action.Content, Size: t.content.Size, Message: t.does,
		},
	})
	if err != nil {
		return err
	}
	t.envelope.PolicyDecision, t.envelope.Grant = d.PolicyDecision, d.Grant
	t.artifact("policyDecision", d.PolicyDecision)
	t.artifact("grant", d.Grant)
	v := o.Verifier
	t.opened.PolicyDecision, err = evidence.Open(v, evidence.PolicyDecisionKind(), d.PolicyDecision, o.Strict.Decision)
	if named := t.opened.PolicyDecision.Claims().ReputationHash; err == nil && named != "" {
		if reputation == "" || evidence.HashToken(reputation) != named {
			err = refusal.New("artifacts_mismatch",
				"the policy decision names a reputation token that the sidecar did not send")
		} else {
			t.artifact("reputation", reputation)
		}
	}
	if err = t.check("received decision", err); err != nil {
		return err
	}
	t.opened.Grant, err = evidence.Open(v, evidence.ActionGrantKind(), d.Grant, o.Strict.Grant)
	rests := t.opened.Grant.Claims().PolicyDecisionHashes
	if err == nil && (len(rests) != 1 || rests[0] != t.opened.PolicyDecision.Hash()) {
		err = refusal.New("artifacts_mismatch", "the grant is for another decision")
	}
	return t.check("received grant", err)
}

// reputation returns the agent's reputation token, or "" if no rule may ask for it.
func (t *posting) reputation(ctx context.Context) string {
	o := &t.p.o
	if o.Reputations == nil || o.Strict.Autonomy.MaxAge == 0 {
		return ""
	}
	return o.Reputations.Token(ctx, o.Strict.Autonomy.MaxAge)
}
