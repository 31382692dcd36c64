package proxy

import (
	"context"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
)

// CheckUnattended names the check of what was seen of the session's run. A record has it only if the run was looked at.
const CheckUnattended = "unattended run"

// beginAttest begins step 7: the sidecar looks at the run now, and two roles sign what it saw. The gate demands that
// the decision was made by the policy that the manifest pins.
func (t *posting) beginAttest() {
	o := &t.p.o
	receipt := t.opened.TriggerReceipt.Claims()
	run := signer.Run{
		Binding: t.binding, ChallengeID: t.envelope.Response.ChallengeID,
		RuntimeID: o.RuntimeID, SessionID: t.session.ID, TranscriptHash: t.session.Transcript(),
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
		<-done // soon after ctx has ended, at the latest
		return a, err
	}
}

// attest is step 7: it waits for the signatures. A run in which something was found has its receipt on record then, and
// goes no further.
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
	seen := t.session.Report() // with what was found since the look
	if !seen.AnyCovered() {
		return nil
	}
	return t.check(CheckUnattended, tainted(seen))
}

// tainted refuses a run in which something was found, also when it has ended since.
func tainted(seen look.Report) error {
	if len(seen.Found) == 0 {
		return nil
	}
	found := make([]string, len(seen.Found))
	for i, f := range seen.Found {
		found[i] = f.String()
	}
	return refusal.New("session_tainted", "this session's run is not unattended: %s", strings.Join(found, "; "))
}
