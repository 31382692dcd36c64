package proxy

import (
	"context"
	"errors"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/receipts"
)

// admit is step 8: the gate verifies the whole chain and issues the capability.
func (t *posting) admit(ctx context.Context) error {
	t.envelope.DeploymentCertificate = t.p.o.DeploymentCertificate()
	t.artifact("deploymentCertificate", t.envelope.DeploymentCertificate)
	var err error
	t.admission, err = t.action.Gate.Admit(ctx, gate.AdmitRequest{
		Envelope: t.envelope, Opened: t.opened, Binding: t.binding,
	})
	t.record.Checks = append(t.record.Checks, t.admission.Checks...)
	if err != nil {
		return err
	}
	t.record.CapabilityID = t.admission.CapabilityID
	t.artifact("capability", t.admission.Capability)
	t.keys = t.admission.Keys
	return nil
}

// resolve gets the credential. A post that cannot have it costs its event nothing.
func (t *posting) resolve(ctx context.Context) (err error) {
	t.credential, err = t.action.Credential.Resolve(ctx, t.r.Header)
	return err
}

// requestProof is step 9: it signs the final call together with the capability and the credential.
func (t *posting) requestProof(ctx context.Context) error {
	tokenHash := t.credential.Hash()
	if t.action.Credential == nil && !t.action.TakesPart { // an API that takes part compares it with Authorization
		tokenHash = t.certificate.Hash()
	}
	proof, err := t.p.o.Prove.Issue(ctx, evidence.RequestProof{
		Subject: t.binding.Subject, Action: t.binding.Action, Resource: t.binding.Resource,
		ContentHash: t.binding.ContentHash, BindingHash: t.record.BindingHash,
		CapabilityID: t.admission.CapabilityID, AccessTokenHash: tokenHash,
	})
	if err != nil {
		return err
	}
	t.proof = proof.Token()
	t.artifact("requestProof", t.proof)
	auth, err := t.action.Gate.Authorize(ctx, gate.AuthorizeRequest{
		Capability: t.admission.Capability, RequestProof: t.proof, Signed: proof, Binding: t.binding,
		AccessTokenHash: tokenHash,
	})
	t.record.Checks = append(t.record.Checks, auth.Checks...)
	if err != nil {
		return err
	}
	t.keys = append(t.keys, auth.Keys...)
	return t.conversation.prove(ctx, t.binding)
}

// CheckSingleUse names, in a record, the consumption of the keys.
const CheckSingleUse = "single use"

// consume makes the intent and every single-use key durable in one transaction. The post then counts as made unless its
// outcome says otherwise. A session that has ended since step 1 makes no post.
func (t *posting) consume(ctx context.Context) error {
	if _, open := t.p.o.Sessions.Get(t.session.ID); !open {
		return refusal.New("session_required", "the call's session ended while the call was verified")
	}
	intent := t.record
	intent.State = ledger.StateForwarding
	var err error
	if intent.Open, err = t.openReceipt(); err != nil {
		return err
	}
	t.stage = unsure // until Begin answers
	if err := t.p.o.Record.Begin(ctx, intent, t.keys...); err != nil {
		if errors.Is(err, ledger.ErrConsumed) {
			t.stage = arrived
			t.receipt.Drop()
		}
		return t.check(CheckSingleUse, err)
	}
	t.receipt.Sent()
	t.goes()
	return t.check(CheckSingleUse, nil)
}

// openReceipt returns what to store with the intent, so that the post surely gets a receipt.
func (t *posting) openReceipt() ([]ledger.OpenCall, error) {
	receipt, err := t.p.o.Receipts.Post(t.session.Chain,
		receipts.PostRequest{Record: t.record, Body: t.content.Reader()})
	if err != nil {
		return nil, err
	}
	open, err := receipt.Open()
	if err == nil {
		t.receipt = receipt
	}
	return open, err
}
