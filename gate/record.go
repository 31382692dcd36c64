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
	c := &recorded{post: p, tokens: tokens, chain: chain{g: &Gate{verifier: v, strict: s}, envelope: evidence.Envelope{
		ChallengeToken: tokens["challenge"], OriginProof: tokens["originProof"],
		TriggerReceipt: tokens["triggerReceipt"],
		PolicyDecision: tokens["policyDecision"], Grant: tokens["grant"], Attestation: tokens["runtimeAttestation"],
		SessionReceipt: tokens["sessionReceipt"], DeploymentCertificate: tokens["deploymentCertificate"],
	}}}
	whole = true
	missing := refusal.New("artifact_missing", "")
	for _, v := range []struct {
		name  string
		check func(c *recorded, ctx context.Context) error
		needs bool
	}{
		{checkCall, (*recorded).readWork, true}, {CheckTrigger, (*recorded).verifyTrigger, true},
		{checkDecision, (*recorded).verifyDecision, true}, {checkGrant, (*recorded).verifyGrant, true},
		{checkRuntime, (*recorded).verifyRuntime, true}, {CheckSession, (*recorded).verifySession, true},
		{CheckDeployment, (*recorded).verifyDeployment, true}, {CheckProof, (*recorded).verifyProof, true},
		// few posts have a statement, and few APIs sign their answers
		{checkStatement, (*recorded).verifyStatement, tokens["agentStatement"] != ""},
		{CheckAnswer, (*recorded).verifyAnswer, p.Answer != nil},
	} {
		if !v.needs {
			continue
		}
		err := v.check(c, ctx)
		checks = append(checks, result(v.name, err))
		whole = whole && err == nil
		if err != nil && !errors.Is(err, missing) {
			return checks, false
		}
	}
	return checks, whole
}

// recorded is the chain of a recorded post. Its checks also compare the artifacts with the record.
type recorded struct {
	chain
	post   ledger.Record
	tokens map[string]string // of the post's artifacts, by name
}

// In a denied post's record the attestation has no decision beside it.
func (c *recorded) verifyRuntime(ctx context.Context) error {
	if c.envelope.PolicyDecision == "" {
		return c.verifyAttestation()
	}
	return c.chain.verifyRuntime(ctx)
}

func (c *recorded) readWork(context.Context) (err error) {
	p := &c.post
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

func (c *recorded) verifyTrigger(ctx context.Context) error {
	if c.envelope.OriginProof == "" && c.envelope.TriggerReceipt != "" {
		return refusal.New("artifacts_mismatch", "the record has a trigger receipt without its origin proof")
	}
	if err := c.chain.verifyTrigger(ctx); err != nil {
		return err
	}
	return all("record_mismatch", "record", equal{c.post.Event, c.opened.TriggerReceipt.Claims().EventID, "event"})
}

// verifyDecision also opens the reputation token, which in a live call the policy engine does.
func (c *recorded) verifyDecision(ctx context.Context) error {
	reputation := c.tokens["reputation"]
	if reputation != "" && c.envelope.PolicyDecision == "" {
		return refusal.New("artifacts_mismatch",
			"the record has a reputation without the policy decision that names it")
	}
	if err := c.chain.verifyDecision(ctx); err != nil {
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

func (c *recorded) verifySession(ctx context.Context) error {
	if err := c.chain.verifySession(ctx); err != nil {
		return err
	}
	of := c.opened.SessionReceipt.Claims().SessionID
	return all("record_mismatch", "record", equal{c.post.Session, of, "session"})
}

func (c *recorded) verifyDeployment(ctx context.Context) error {
	if err := c.chain.verifyDeployment(ctx); err != nil || c.post.Manifest == "" {
		return err
	}
	return all("record_mismatch", "record", equal{c.post.Manifest, c.g.strict.ManifestHash, "manifest"})
}

func (c *recorded) verifyProof(context.Context) error {
	token, capability := c.tokens["requestProof"], c.tokens["capability"]
	p, err := evidence.Open(c.g.verifier, evidence.RequestProofKind(), token, c.g.strict.RequestProof)
	if err != nil {
		return err
	}
	if err := proves(p.Claims(), c.post.CapabilityID, c.binding); err != nil || capability == "" {
		return err
	}
	earned, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), capability)
	if err != nil {
		return err
	}
	return all("record_mismatch", "record",
		equal{earned.ID, c.post.CapabilityID, "capability"},
		equal{earned.Binding.Hash(), c.hash, "binding"},
	)
}

func (c *recorded) verifyStatement(context.Context) error {
	o, err := evidence.Open(c.g.verifier, interaction.StatementKind, c.tokens["agentStatement"], c.g.strict.Statement)
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
		equal{s.Session, c.post.Session, "session"},
		equal{s.EventID, c.post.Event, "event"},
	)
}
