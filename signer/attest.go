package signer

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/look"
)

// Attester signs the runtime attestation and the agent session receipt of a run, each with its own key and issuer.
type Attester struct {
	runtime *Issuer[evidence.RuntimeAttestation]
	session *Issuer[evidence.SessionReceipt]
	access  Access
}

// Access declares, from configuration, which humans can reach the agent's run (seed: the four human flags of the
// session receipt). The receipt truthfully shows a flag that is set or was observed, and strict policy refuses it.
type Access struct {
	HumanPromptPresent             bool
	HumanOperatorPresent           bool
	UserShellAccess                bool
	AgentEnvironmentUserAccessible bool
}

// NoProcessEntered is listed as observed but is no claim: the run is isolated, and no other user's process was found in
// it. Users may still have a shell, because an agent can read commands from a file, a FIFO, a socket or a host.
const NoProcessEntered = "noProcessEntered"

// with adds observations to the declared flags, and lists them. A terminal, a debugger or a stranger sets a flag. Their
// absence clears none: a person can act without them.
func (a Access) with(seen look.Report) (Access, []string) {
	var flags []string
	for _, f := range []struct {
		kind, name string
		flag       *bool
	}{
		{look.Debugger, "agentEnvironmentUserAccessible", &a.AgentEnvironmentUserAccessible},
		{look.Terminal, "humanOperatorPresent", &a.HumanOperatorPresent},
		{look.Stdin, "humanPromptPresent", &a.HumanPromptPresent},
		{look.Answer, "humanPromptPresent", &a.HumanPromptPresent},
		{look.Stranger, "userShellAccess", &a.UserShellAccess},
	} {
		if seen.Has(f.kind) {
			*f.flag = true
			if !slices.Contains(flags, f.name) {
				flags = append(flags, f.name)
			}
		}
	}
	if len(seen.Found) == 0 && seen.Covered(look.Stranger) {
		flags = append(flags, NoProcessEntered)
	}
	return a, flags
}

func (a Access) interactive() bool {
	return a.HumanPromptPresent || a.HumanOperatorPresent || a.UserShellAccess
}

// NewAttester attests runs whose access by people is as access declares.
func NewAttester(runtime *Issuer[evidence.RuntimeAttestation], session *Issuer[evidence.SessionReceipt],
	access Access) *Attester {
	return &Attester{runtime: runtime, session: session, access: access}
}

// Run is what the sidecar knows of the run before a post.
type Run struct {
	Binding                             evidence.Binding
	ChallengeID                         string
	RuntimeID, SessionID                string
	TranscriptHash                      string
	EventID, TriggerKind, TriggerSource string // from the verified trigger receipt
	TriggerReceiptHash                  string
	PolicyHash                          string // the manifest's; the gate compares it with the decision's
	EnvironmentHash                     string // measured by this process
	Seen                                look.Report
	// head of the session's receipt chain; nil without receipts
	Interactions *evidence.InteractionHead
	// Enforcement and AgentPod are as in the session receipt.
	Enforcement, AgentPod string
}

// Attested has the runtime's two tokens for one post.
type Attested struct {
	Attestation    evidence.Opened[evidence.RuntimeAttestation]
	SessionReceipt evidence.Opened[evidence.SessionReceipt]
}

// The sidecar always sees these claims itself. It declares the others unless something was observed.
var (
	observedByRuntime = []string{"bindingHash", "challengeId", "contentHash", "environmentHash", "trigger",
		"triggerReceiptHash"}
	observedOfSession = []string{"bindingHash", "challengeId", "environmentHash", "eventId", "inputKind", "inputSource",
		"sessionId", "transcriptHash"}
)

// Attest signs both at the same time.
func (a *Attester) Attest(ctx context.Context, r Run) (Attested, error) {
	var out Attested
	access, flags := a.access.with(r.Seen)
	ofRun := observedByRuntime
	if access.interactive() && !a.access.interactive() {
		ofRun = append(slices.Clone(ofRun), "humanInteractive")
	}
	if r.Interactions != nil {
		flags = append(flags, "interactions")
	}
	if r.AgentPod != "" {
		flags = append(flags, "agentPod")
	}
	if evidence.EnforcementObserved(r.Enforcement) {
		flags = append(flags, "enforcement")
	}
	bindingHash := r.Binding.Hash()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		out.Attestation, err = a.runtime.Issue(ctx, evidence.RuntimeAttestation{
			BindingHash: bindingHash, ChallengeID: r.ChallengeID, ContentHash: r.Binding.ContentHash,
			EnvironmentHash:  r.EnvironmentHash,
			HumanInteractive: access.interactive(),
			Mode:             evidence.ModeAutonomous, Observed: ofRun, PolicyHash: r.PolicyHash, RuntimeID: r.RuntimeID,
			Trigger:            evidence.Trigger{ID: r.EventID, Kind: r.TriggerKind, Source: r.TriggerSource},
			TriggerReceiptHash: r.TriggerReceiptHash,
		})
		return err
	})
	both.Go(func() (err error) {
		out.SessionReceipt, err = a.session.Issue(ctx, evidence.SessionReceipt{
			AgentEnvironmentUserAccessible: access.AgentEnvironmentUserAccessible, AgentPod: r.AgentPod,
			BindingHash: bindingHash, ChallengeID: r.ChallengeID, Enforcement: r.Enforcement,
			EnvironmentHash: r.EnvironmentHash, EventID: r.EventID, HumanOperatorPresent: access.HumanOperatorPresent,
			HumanPromptPresent: access.HumanPromptPresent, InputKind: r.TriggerKind, InputSource: r.TriggerSource,
			Interactions: r.Interactions, Observed: append(slices.Clone(observedOfSession), flags...),
			PolicyHash: r.PolicyHash, RuntimeID: r.RuntimeID, SessionID: r.SessionID, TranscriptHash: r.TranscriptHash,
			UserShellAccess: access.UserShellAccess,
		})
		return err
	})
	if err := both.Wait(); err != nil {
		return Attested{}, err
	}
	return out, nil
}
