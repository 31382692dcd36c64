package gate

import (
	"context"
	"errors"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

const checkCall = "call"

// VerifyRecord verifies the chain of a recorded post with public keys alone: every signed artifact, against the others
// and against the record's call, event, session and manifest. Host and outcome rest on the record alone, unless an API
// has signed its answer. Set v's clock to a moment when the chain was fresh.
//
// Challenge token and capability are secrets of their gate, so their claims are read unverified; but the signed
// artifacts must name the challenge's id and binding, and the request proof the capability's id. Not verified: fresh
// work, the capability, the access token, and single use.
//
// The list ends with the first failed check, but not with a missing artifact: a refused post's record is incomplete.
func VerifyRecord(ctx context.Context, v *evidence.Verifier, s *policy.Strict, p ledger.Record) (checks []ledger.Check,
	whole bool) {
	tokens := make(map[string]string, len(p.Artifacts))
	for _, a := range p.Artifacts {
		tokens[a.Name] = a.Token
	}
	c := &chain{g: &Gate{verifier: v, strict: s}, envelope: evidence.Envelope{
		ChallengeToken: tokens["challenge"], OriginProof: tokens["originProof"],
		TriggerReceipt: tokens["triggerReceipt"],
		PolicyDecision: tokens["policyDecision"], Grant: tokens["grant"], Attestation: tokens["runtimeAttestation"],
		SessionReceipt: tokens["sessionReceipt"], DeploymentCertificate: tokens["deploymentCertificate"],
	}}
	whole = true
	missing := refusal.New("artifact_missing", "")
	steps := []verification{
		{checkCall, func(c *chain, _ context.Context) error { return c.readWork(p) }},
		{CheckTrigger, func(c *chain, ctx context.Context) error { return c.verifyRecordedTrigger(ctx, p.Event) }},
		{checkDecision, func(c *chain, ctx context.Context) error {
			return c.verifyRecordedDecision(ctx, tokens["reputation"])
		}},
		{checkGrant, (*chain).verifyGrant}, {checkRuntime, (*chain).verifyRecordedRuntime},
		{CheckSession, func(c *chain, ctx context.Context) error { return c.verifyRecordedSession(ctx, p.Session) }},
		{CheckDeployment, func(c *chain, ctx context.Context) error {
			return c.verifyRecordedDeployment(ctx, p.Manifest)
		}},
		{CheckProof, func(c *chain, _ context.Context) error {
			return c.verifyRecordedProof(tokens["requestProof"], tokens["capability"], p.CapabilityID)
		}},
	}
	if statement := tokens["agentStatement"]; statement != "" { // few posts have one
		steps = append(steps, verification{checkStatement, func(c *chain, _ context.Context) error {
			return c.verifyRecordedStatement(statement, p)
		}})
	}
	if p.Answer != nil { // of an API that signs its answers
		steps = append(steps, verification{CheckAnswer, func(*chain, context.Context) error {
			return verifyRecordedAnswer(p)
		}})
	}
	for _, check := range steps {
		err := check.check(c, ctx)
		checks = append(checks, result(check.name, err))
		whole = whole && err == nil
		if err != nil && !errors.Is(err, missing) {
			return checks, false
		}
	}
	return checks, whole
}

// In a denied post's record the attestation has no decision beside it.
func (c *chain) verifyRecordedRuntime(ctx context.Context) error {
	if c.envelope.PolicyDecision == "" {
		return c.verifyAttestation()
	}
	return c.verifyRuntime(ctx)
}

func (c *chain) readWork(p ledger.Record) (err error) {
	if c.work, err = evidence.UnverifiedClaims(evidence.ChallengeTokenKind(), c.envelope.ChallengeToken); err != nil {
		return err
	}
	call := evidence.Binding{Subject: p.Subject, Action: p.Action, Resource: p.Resource, ContentHash: p.ContentHash}
	if err := call.Check(); err != nil {
		return err
	}
	if c.work.Binding == nil || !c.work.Binding.SameAction(call) {
		return refusal.New("challenge_refused",
			"the challenge is for another subject, action, resource or content than the record's call")
	}
	c.binding, c.hash = *c.work.Binding, c.work.Binding.Hash()
	method, rest, _ := strings.Cut(p.Resource, " ")
	target, message, _ := strings.Cut(rest, " ") // a target has no space
	path, _, _ := strings.Cut(target, "?")
	return all("record_mismatch", "record",
		equal{p.BindingHash, c.hash, "binding"},
		equal{p.Method + " " + p.Path, method + " " + path, "method or path"},
		equal{p.Message, message, "message"},
	)
}

func (c *chain) verifyRecordedTrigger(ctx context.Context, event string) error {
	if c.envelope.OriginProof == "" && c.envelope.TriggerReceipt != "" {
		return refusal.New("artifacts_mismatch",
			"the record has a trigger receipt without its origin proof")
	}
	if err := c.verifyTrigger(ctx); err != nil {
		return err
	}
	return all("record_mismatch", "record", equal{event, c.opened.TriggerReceipt.Claims().EventID, "event"})
}

// verifyRecordedDecision also opens the reputation token, which in a live call the policy engine does.
func (c *chain) verifyRecordedDecision(ctx context.Context, reputation string) error {
	if reputation != "" && c.envelope.PolicyDecision == "" {
		return refusal.New("artifacts_mismatch",
			"the record has a reputation without the policy decision that names it")
	}
	if err := c.verifyDecision(ctx); err != nil {
		return err
	}
	switch named := c.opened.PolicyDecision.Claims().ReputationHash; {
	case named == "" && reputation == "":
		return nil
	case reputation != "" && evidence.HashToken(reputation) != named:
		return refusal.New("artifacts_mismatch", "the policy decision does not name the record's reputation token")
	}
	_, err := policy.OpenReputation(c.g.verifier, c.g.strict, reputation, c.binding.Subject)
	return err
}

func (c *chain) verifyRecordedSession(ctx context.Context, session string) error {
	if err := c.verifySession(ctx); err != nil {
		return err
	}
	return all("record_mismatch", "record", equal{session, c.opened.SessionReceipt.Claims().SessionID, "session"})
}

func (c *chain) verifyRecordedDeployment(ctx context.Context, manifest string) error {
	if err := c.verifyDeployment(ctx); err != nil || manifest == "" {
		return err
	}
	return all("record_mismatch", "record", equal{manifest, c.g.strict.ManifestHash, "manifest"})
}

func (c *chain) verifyRecordedProof(token, capability, capabilityID string) error {
	p, err := evidence.Open(c.g.verifier, evidence.RequestProofKind(), token, c.g.strict.RequestProof)
	if err != nil {
		return err
	}
	if err := proves(p.Claims(), capabilityID, c.binding); err != nil || capability == "" {
		return err
	}
	earned, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), capability)
	if err != nil {
		return err
	}
	return all("record_mismatch", "record",
		equal{earned.ID, capabilityID, "capability"},
		equal{earned.Binding.Hash(), c.hash, "binding"},
	)
}

func (c *chain) verifyRecordedStatement(token string, p ledger.Record) error {
	o, err := evidence.Open(c.g.verifier, interaction.StatementKind, token, c.g.strict.Statement)
	if err != nil {
		return err
	}
	s := o.Claims()
	if !policy.IsOwner(c.g.verifier, s.Owner) {
		return refusal.New("statement_mismatch", "the statement is by an agent of another owner")
	}
	return all("statement_mismatch", "statement",
		equal{s.StatementHash, c.binding.ContentHash, "document"},
		equal{s.BindingHash, c.hash, "binding"},
		equal{s.Agent, c.binding.Subject, "agent"},
		equal{s.Session, p.Session, "session"},
		equal{s.EventID, p.Event, "event"},
	)
}
