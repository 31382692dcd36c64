package gate

import (
	"context"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// Opened holds artifacts of an envelope that this process has opened or signed. Any may be missing.
type Opened struct {
	OriginProof    evidence.Opened[evidence.TriggerOriginProof]
	TriggerReceipt evidence.Opened[evidence.TriggerReceipt]
	PolicyDecision evidence.Opened[evidence.PolicyDecision]
	Grant          evidence.Opened[evidence.ActionGrant]
	Attestation    evidence.Opened[evidence.RuntimeAttestation]
	SessionReceipt evidence.Opened[evidence.SessionReceipt]
}

type chain struct {
	g        *Gate
	envelope evidence.Envelope
	opened   Opened           // opened or signed before, or opened by a check
	asked    evidence.Binding // the call without the nonce

	work    evidence.ChallengeToken
	binding evidence.Binding // with the challenge's nonce
	hash    string           // of the binding
}

// open returns the claims of token, and leaves the artifact in before. If before holds this very token, open judges
// only time, trust and policy.
func open[C any](g *Gate, k evidence.Kind[C], token string, before *evidence.Opened[C], want evidence.Expected) (c C,
	err error) {
	if before.Token() == token {
		err = evidence.Judge(g.verifier, k, *before, want)
	} else {
		*before, err = evidence.Open(g.verifier, k, token, want)
	}
	if err != nil {
		return c, err
	}
	return before.Claims(), nil
}

type verification struct {
	name  string
	check func(c *chain, ctx context.Context) error
}

// verifications run in this order, so that a chain is always refused for the same reason. Each opens an artifact and
// compares it with the earlier ones.
var verifications = []verification{
	{CheckDeployment, (*chain).verifyDeployment},
	{checkWork, (*chain).verifyWork},
	{CheckTrigger, (*chain).verifyTrigger},
	{checkDecision, (*chain).verifyDecision},
	{checkGrant, (*chain).verifyGrant},
	{checkRuntime, (*chain).verifyRuntime},
	{CheckSession, (*chain).verifySession},
}

func (c *chain) verify(ctx context.Context) ([]ledger.Check, error) {
	checks := make([]ledger.Check, 0, len(verifications))
	for _, v := range verifications {
		err := evidence.Stale(v.check(c, ctx))
		checks = append(checks, result(v.name, err))
		if err != nil {
			return checks, err
		}
	}
	return checks, nil
}

type equal struct {
	got, want string
	what      string // completes "the … does not match"
}

func all(code, artifact string, pairs ...equal) error {
	for _, p := range pairs {
		if p.got != p.want {
			return refusal.New(code, "the %s of the %s does not match the rest of the chain", p.what, artifact)
		}
	}
	return nil
}

func samePins(artifact, policyHash, environmentHash string, by hashes) error {
	return all("pin_mismatch", artifact,
		equal{policyHash, by.policy, "policy hash"},
		equal{environmentHash, by.environment, "environment hash"},
	)
}

type hashes struct{ policy, environment string }

// pinned refuses another policy, or an environment that the manifest does not list.
func (c *chain) pinned(artifact, policyHash, environmentHash string) error {
	want := c.g.strict.Runtime
	if !slices.Contains(want.EnvironmentHashes, environmentHash) {
		return refusal.New("pin_mismatch", "the environment hash of the %s does not match the rest of the chain",
			artifact)
	}
	return samePins(artifact, policyHash, environmentHash, hashes{want.PolicyHash, environmentHash})
}

func (c *chain) verifyDeployment(context.Context) error {
	return c.g.deployment.verify(c.g.verifier, c.envelope.DeploymentCertificate, c.g.strict)
}

func (c *chain) verifyWork(ctx context.Context) (err error) {
	if err := c.asked.Check(); err != nil {
		return err
	}
	c.work, err = c.g.challenges.VerifyToken(ctx, c.envelope.ChallengeToken, c.envelope.Response,
		challenge.Want{Binding: c.asked, MaxAge: c.g.strict.MaxChallengeAge})
	if err != nil {
		return err
	}
	c.binding, c.hash = *c.work.Binding, c.work.BindingHash
	return nil
}

func (c *chain) verifyTrigger(context.Context) error {
	s := c.g.strict
	origin, err := open(c.g, evidence.TriggerOriginProofKind(), c.envelope.OriginProof, &c.opened.OriginProof,
		s.Origin.Expected)
	if err != nil {
		return err
	}
	receipt, err := open(c.g, evidence.TriggerReceiptKind(), c.envelope.TriggerReceipt, &c.opened.TriggerReceipt,
		s.Receipt.Expected)
	if err != nil {
		return err
	}
	return policy.CheckTrigger(s, origin, receipt, c.opened.OriginProof.Hash(), c.hash)
}

func (c *chain) verifyDecision(context.Context) error {
	d, err := open(c.g, evidence.PolicyDecisionKind(), c.envelope.PolicyDecision, &c.opened.PolicyDecision,
		c.g.strict.Decision)
	if err != nil {
		return err
	}
	b, o := &c.binding, c.opened.OriginProof.Claims()
	if d.HumanInitiated {
		return refusal.New("human_involved", "the policy decision says that a human asked for the post")
	}
	if d.Decision != evidence.DecisionAllow {
		return refusal.New("policy_denied", "the policy decision does not allow the post")
	}
	err = all("artifacts_mismatch", "policy decision",
		equal{d.BindingHash, c.hash, "binding"},
		equal{d.ContentHash, b.ContentHash, "content"},
		equal{d.Subject, b.Subject, "subject"},
		equal{d.Action, b.Action, "action"},
		equal{d.Resource, b.Resource, "resource"},
		equal{d.ChallengeID, c.work.ID, "challenge"},
		equal{d.TriggerEventID, o.EventID, "event"},
		equal{d.TriggerKind, o.Kind, "trigger kind"},
		equal{d.TriggerSource, o.Source, "trigger source"},
		equal{d.OriginVerificationMethod, o.VerificationMethod, "origin verification method"},
		equal{d.OriginEvidenceID, o.EvidenceID, "origin evidence id"},
		equal{d.OriginEvidenceHash, o.EvidenceHash, "origin evidence hash"},
	)
	if err != nil {
		return err
	}
	return c.pinned("policy decision", d.PolicyHash, d.EnvironmentHash)
}

func (c *chain) verifyGrant(context.Context) error {
	g, err := open(c.g, evidence.ActionGrantKind(), c.envelope.Grant, &c.opened.Grant, c.g.strict.Grant)
	if err != nil {
		return err
	}
	d, b := c.opened.PolicyDecision.Claims(), &c.binding
	for _, scope := range []struct {
		list []string
		want string
		what string
	}{
		{g.PolicyDecisionIDs, d.ID, "decision id"},
		{g.PolicyDecisionHashes, c.opened.PolicyDecision.Hash(), "decision hash"},
		{g.Actions, b.Action, "actions"},
		{g.Resources, b.Resource, "resources"},
		{g.ContentHashes, b.ContentHash, "contents"},
		{g.BindingHashes, c.hash, "bindings"},
		{g.RuntimeIDs, d.RuntimeID, "runtimes"},
		{g.TriggerEventIDs, d.TriggerEventID, "events"},
		{g.TriggerSources, d.TriggerSource, "trigger sources"},
		{g.OriginVerificationMethods, d.OriginVerificationMethod, "origin verification methods"},
		{g.OriginEvidenceIDs, d.OriginEvidenceID, "origin evidence ids"},
		{g.OriginEvidenceHashes, d.OriginEvidenceHash, "origin evidence hashes"},
	} {
		if !slices.Contains(scope.list, scope.want) {
			return refusal.New("artifacts_mismatch", "the %s of the action grant do not cover this post", scope.what)
		}
	}
	if err := all("artifacts_mismatch", "action grant", equal{g.Subject, b.Subject, "subject"}); err != nil {
		return err
	}
	return samePins("action grant", g.PolicyHash, g.EnvironmentHash, hashes{d.PolicyHash, d.EnvironmentHash})
}

func (c *chain) verifyRuntime(context.Context) error {
	if err := c.verifyAttestation(); err != nil {
		return err
	}
	a, d := c.opened.Attestation.Claims(), c.opened.PolicyDecision.Claims()
	if err := all("artifacts_mismatch", "runtime attestation", equal{a.RuntimeID, d.RuntimeID, "runtime"}); err != nil {
		return err
	}
	return all("pin_mismatch", "runtime attestation", equal{a.EnvironmentHash, d.EnvironmentHash, "environment hash"})
}

// verifyAttestation leaves runtime and environment to be compared with the decision's, because the two are made at the
// same time.
func (c *chain) verifyAttestation() error {
	s := c.g.strict
	a, err := open(c.g, evidence.RuntimeAttestationKind(), c.envelope.Attestation, &c.opened.Attestation,
		s.Runtime.Expected)
	if err != nil {
		return err
	}
	receipt := c.opened.TriggerReceipt.Claims()
	switch {
	case a.HumanInteractive:
		return refusal.New("human_involved", "the runtime attestation says that a human could interact with the run")
	case a.Mode != evidence.ModeAutonomous:
		return refusal.New("human_involved", "the runtime attestation says that the run was not autonomous")
	// the session's list always counts
	case len(s.Runtime.RuntimeIDs) > 0 && !evidence.MatchName(s.Runtime.RuntimeIDs, a.RuntimeID):
		return refusal.New("not_allowed", "the manifest does not allow the runtime %q", a.RuntimeID)
	case !slices.Contains(s.Runtime.TriggerKinds, a.Trigger.Kind):
		return refusal.New("not_allowed", "the runtime policy does not allow runs with a trigger of kind %q",
			a.Trigger.Kind)
	}
	err = all("artifacts_mismatch", "runtime attestation",
		equal{a.ChallengeID, c.work.ID, "challenge"},
		equal{a.BindingHash, c.hash, "binding"},
		equal{a.ContentHash, c.binding.ContentHash, "content"},
		equal{a.TriggerReceiptHash, c.opened.TriggerReceipt.Hash(), "trigger receipt"},
		equal{a.Trigger.ID, receipt.EventID, "event"},
		equal{a.Trigger.Kind, receipt.Kind, "trigger kind"},
		equal{a.Trigger.Source, receipt.Source, "trigger source"},
	)
	if err != nil {
		return err
	}
	return c.pinned("runtime attestation", a.PolicyHash, a.EnvironmentHash)
}

func (c *chain) verifySession(context.Context) error {
	s := c.g.strict.Session
	r, err := open(c.g, evidence.SessionReceiptKind(), c.envelope.SessionReceipt, &c.opened.SessionReceipt, s.Expected)
	if err != nil {
		return err
	}
	receipt := c.opened.TriggerReceipt.Claims()
	switch {
	case r.HumanPromptPresent:
		return refusal.New("human_involved", "the session receipt says that a human prompted the agent")
	case r.HumanOperatorPresent:
		return refusal.New("human_involved", "the session receipt says that a human operated the run")
	case r.UserShellAccess:
		return refusal.New("human_involved", "the session receipt says that users had a shell in the run")
	case r.AgentEnvironmentUserAccessible:
		return refusal.New("human_involved", "the session receipt says that users could reach the agent's environment")
	case slices.Contains(s.DeniedInputKinds, r.InputKind) || !slices.Contains(s.InputKinds, r.InputKind):
		return refusal.New("not_allowed", "the policy does not allow sessions with input of kind %q", r.InputKind)
	case !evidence.MatchName(s.RuntimeIDs, r.RuntimeID):
		return refusal.New("not_allowed", "the manifest does not allow the runtime %q", r.RuntimeID)
	}
	err = all("artifacts_mismatch", "agent session receipt",
		equal{r.RuntimeID, c.opened.Attestation.Claims().RuntimeID, "runtime"},
		equal{r.ChallengeID, c.work.ID, "challenge"},
		equal{r.BindingHash, c.hash, "binding"},
		equal{r.EventID, receipt.EventID, "event"},
		equal{r.InputKind, receipt.Kind, "input kind"},
		equal{r.InputSource, receipt.Source, "input source"},
	)
	if err != nil {
		return err
	}
	return samePins("agent session receipt", r.PolicyHash, r.EnvironmentHash,
		hashes{s.PolicyHash, c.opened.Attestation.Claims().EnvironmentHash})
}
