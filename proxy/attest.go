package proxy

import (
	"context"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
)

// CheckUnattended names the check on the session's run, which only records of observed runs have.
const CheckUnattended = "unattended run"

// beginAttest begins step 7: the sidecar observes the run now, and two roles sign the result. The policy hash is the
// manifest's, so the gate accepts only a decision by that policy.
func (t *posting) beginAttest() {
	o := &t.p.o
	receipt := t.opened.TriggerReceipt.Claims()
	run := signer.Run{
		Binding: t.binding, ChallengeID: t.envelope.Response.ChallengeID,
		RuntimeID: o.RuntimeID, SessionID: t.session.ID, TranscriptHash: t.session.Transcript(),
		Enforcement: t.session.Enforcement(), AgentPod: t.session.Agent,
		EventID: receipt.EventID, TriggerKind: receipt.Kind, TriggerSource: receipt.Source,
		TriggerReceiptHash: t.opened.TriggerReceipt.Hash(),
		PolicyHash:         o.Strict.Runtime.PolicyHash, EnvironmentHash: o.EnvironmentHash,
	}
	var ctx context.Context
	ctx, t.stop = context.WithTimeout(t.r.Context(), o.Timeouts.Step)
	var a signer.Attested
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if run.Interactions, err = o.Receipts.Head(ctx, t.session.Chain); err != nil {
			return
		}
		if run.Seen, err = t.session.Look(ctx); err == nil {
			a, err = o.Attest.Attest(ctx, run)
		}
	}()
	t.attested = func() (signer.Attested, error) {
		<-done // ends soon after ctx
		return a, err
	}
}

// attest is step 7: it waits for the signatures, and stops the post if the run has findings. By then the record has the
// receipt.
func (t *posting) attest(context.Context) error {
	a, err := t.attested()
	if err != nil {
		return err
	}
	t.opened.Attestation, t.opened.SessionReceipt = a.Attestation, a.SessionReceipt
	t.envelope.Attestation, t.envelope.SessionReceipt = a.Attestation.Token(), a.SessionReceipt.Token()
	t.artifact("runtimeAttestation", t.envelope.Attestation)
	t.artifact("sessionReceipt", t.envelope.SessionReceipt)
	if h := a.SessionReceipt.Claims().Interactions; h != nil {
		t.record.Interactions = &ledger.Standing{Number: h.Number, Head: h.HeadHash, Open: h.OpenCalls}
	}
	seen := t.session.Report() // includes later findings
	if !seen.AnyCovered() {
		return nil
	}
	return t.check(CheckUnattended, tainted(seen))
}

// tainted refuses a run with findings, even if it has ended.
func tainted(seen look.Report) error {
	if len(seen.Found) == 0 {
		return nil
	}
	found := make([]string, len(seen.Found))
	for i, f := range seen.Found {
		found[i] = f.String()
	}
	return refusal.New("session_tainted", "this session's run may have been attended: %s", strings.Join(found, "; "))
}
