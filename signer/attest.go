package signer

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
)

// Attester signs what the sidecar saw of a run: the runtime attestation and the agent session receipt, each with its own key
// and issuer.
type Attester struct {
	runtime *Issuer[evidence.RuntimeAttestation]
	session *Issuer[evidence.SessionReceipt]
	access  Access
}

// Access is who can reach the agent's run, as the deployment declares it; nothing of it is observed here (seed: the four human
// flags of the agent session receipt). A flag that is set goes into the receipt truthfully, and strict policy then refuses.
type Access struct {
	HumanPromptPresent             bool
	HumanOperatorPresent           bool
	UserShellAccess                bool
	AgentEnvironmentUserAccessible bool
}

// NewAttester makes an Attester.
func NewAttester(runtime *Issuer[evidence.RuntimeAttestation], session *Issuer[evidence.SessionReceipt], access Access) *Attester {
	return &Attester{runtime: runtime, session: session, access: access}
}

// Run is what the sidecar knows of the run when a post is about to be made.
type Run struct {
	Binding                             evidence.Binding
	ChallengeID                         string
	RuntimeID, SessionID                string
	TranscriptHash                      string
	EventID, TriggerKind, TriggerSource string // from the verified trigger receipt
	TriggerReceiptHash                  string
	PolicyHash                          string // from the verified policy decision
	EnvironmentHash                     string // measured by this process
}

// Attested are the two artifacts.
type Attested struct{ Attestation, SessionReceipt string }

// Claims that the sidecar saw for itself; every other claim of these two artifacts is only declared.
var (
	observedByRuntime = []string{"bindingHash", "challengeId", "contentHash", "environmentHash", "trigger", "triggerReceiptHash"}
	observedOfSession = []string{"bindingHash", "challengeId", "environmentHash", "eventId", "inputKind", "inputSource", "sessionId", "transcriptHash"}
)

// Attest signs both, at the same time.
func (a *Attester) Attest(ctx context.Context, r Run) (Attested, error) {
	var out Attested
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		out.Attestation, _, err = a.runtime.Sign(ctx, evidence.RuntimeAttestation{
			BindingHash: r.Binding.Hash(), ChallengeID: r.ChallengeID, ContentHash: r.Binding.ContentHash, EnvironmentHash: r.EnvironmentHash,
			HumanInteractive: a.access.HumanPromptPresent || a.access.HumanOperatorPresent || a.access.UserShellAccess,
			Mode:             evidence.ModeAutonomous, Observed: observedByRuntime, PolicyHash: r.PolicyHash, RuntimeID: r.RuntimeID,
			Trigger: evidence.Trigger{ID: r.EventID, Kind: r.TriggerKind, Source: r.TriggerSource}, TriggerReceiptHash: r.TriggerReceiptHash,
		})
		return err
	})
	both.Go(func() (err error) {
		out.SessionReceipt, _, err = a.session.Sign(ctx, evidence.SessionReceipt{
			AgentEnvironmentUserAccessible: a.access.AgentEnvironmentUserAccessible, BindingHash: r.Binding.Hash(), ChallengeID: r.ChallengeID,
			EnvironmentHash: r.EnvironmentHash, EventID: r.EventID, HumanOperatorPresent: a.access.HumanOperatorPresent,
			HumanPromptPresent: a.access.HumanPromptPresent, InputKind: r.TriggerKind, InputSource: r.TriggerSource, Observed: observedOfSession,
			PolicyHash: r.PolicyHash, RuntimeID: r.RuntimeID, SessionID: r.SessionID, TranscriptHash: r.TranscriptHash, UserShellAccess: a.access.UserShellAccess,
		})
		return err
	})
	return out, both.Wait()
}
