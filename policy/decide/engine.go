package decide

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/signer"
)

// EngineOptions configure an [Engine]. All are required.
type EngineOptions struct {
	// Now is the time that conditions see.
	Now func() time.Time
	// Log gets one line for each decision, without content.
	Log *zap.Logger
}

// Engine decides and grants single posts (seed: createAutonomousPolicyDecision, createAutonomousActionGrant). It is
// safe for concurrent use.
type Engine struct {
	rules    *Rules
	verifier *evidence.Verifier
	strict   *policy.Strict
	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
	o        EngineOptions
}

// NewEngine makes an Engine. It refuses rules that the manifest does not pin (pin_mismatch).
func NewEngine(rules *Rules, v *evidence.Verifier, s *policy.Strict, decision *signer.Issuer[evidence.PolicyDecision],
	grant *signer.Issuer[evidence.ActionGrant], o EngineOptions) (*Engine, error) {
	if rules == nil || v == nil || s == nil || decision == nil || grant == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("decide: the engine lacks one of its parts")
	}
	if err := s.Pins(rules.Hash()); err != nil {
		return nil, err
	}
	return &Engine{rules, v, s, decision, grant, o}, nil
}

func (e *Engine) manifest() string { return e.strict.ManifestHash }

// Decide verifies the trigger evidence, evaluates the rules, and signs a decision and a grant for exactly this post. If
// anything does not hold, it gives out nothing.
func (e *Engine) Decide(ctx context.Context, r policy.Request) (policy.Decision, error) {
	d, rule, err := e.decide(ctx, r)
	log := e.o.Log.With(zap.String("action", r.Binding.Action), zap.String("resource", r.Binding.Resource),
		zap.String("runtime", r.RuntimeID), zap.String("session", r.SessionID))
	if err != nil {
		log.Info("refused", zap.Error(err))
		return policy.Decision{}, err
	}
	log.Info("allowed", zap.String("rule", rule))
	return d, nil
}

func (e *Engine) decide(ctx context.Context, r policy.Request) (d policy.Decision, rule string, err error) {
	if err := r.Check(); err != nil {
		return d, "", err
	}
	if err := e.admits(ctx, r); err != nil {
		return d, "", err
	}
	origin, err := e.verifyTrigger(r)
	if err != nil {
		return d, "", err
	}
	args, err := r.Call.Arguments()
	if err != nil {
		return d, "", err
	}
	f := &facts{binding: r.Binding, call: r.Call, args: args, origin: origin, runtimeID: r.RuntimeID,
		sessionID: r.SessionID, now: e.o.Now()}
	f.autonomy = appraised{
		open: func() (evidence.Opened[accrual.Claims], error) {
			return e.openReputation(r.Reputation, r.Binding.Subject)
		},
		expected: e.strict.Autonomy, now: f.now,
	}
	rule, err = e.rules.decide(f)
	if err != nil {
		return d, "", err
	}
	failpoint.Reach("allowed")
	d, err = e.sign(ctx, r, origin, rule, f.autonomy.hash)
	return d, rule, err
}

func (e *Engine) admits(ctx context.Context, r policy.Request) error {
	if err := wire.CheckRuntime(ctx, r.RuntimeID); err != nil {
		return err
	}
	if r.ManifestHash != e.strict.ManifestHash {
		return otherManifest(r.ManifestHash)
	}
	return cmp.Or(e.strict.CheckEnvironment(r.EnvironmentHash), e.strict.CheckRuntime(r.RuntimeID))
}

func (e *Engine) verifyTrigger(r policy.Request) (evidence.TriggerOriginProof, error) {
	o, err := evidence.Open(e.verifier, evidence.TriggerOriginProofKind(), r.OriginProof, e.strict.Origin.Expected)
	if err != nil {
		return evidence.TriggerOriginProof{}, evidence.Stale(err)
	}
	receipt, err := evidence.Open(e.verifier, evidence.TriggerReceiptKind(), r.TriggerReceipt,
		e.strict.Receipt.Expected)
	if err != nil {
		return evidence.TriggerOriginProof{}, evidence.Stale(err)
	}
	return o.Claims(), policy.CheckTrigger(e.strict, o.Claims(), receipt.Claims(), o.Hash(), r.Binding.Hash())
}

// sign signs the decision and, over its id and hash, the grant. Each scope of the grant has exactly one element.
func (e *Engine) sign(ctx context.Context, r policy.Request, o evidence.TriggerOriginProof, rule,
	reputationHash string) (policy.Decision, error) {
	b, bindingHash, policyHash := r.Binding, r.Binding.Hash(), e.rules.Hash()
	tokens, err := signer.SignPair(ctx, e.decision, evidence.PolicyDecision{
		Action: b.Action, BindingHash: bindingHash, ChallengeID: r.ChallengeID, ContentHash: b.ContentHash,
		Decision:        evidence.DecisionAllow,
		EnvironmentHash: r.EnvironmentHash, HumanInitiated: false, OriginEvidenceHash: o.EvidenceHash,
		OriginEvidenceID:         o.EvidenceID,
		OriginVerificationMethod: o.VerificationMethod, PolicyHash: policyHash, ReputationHash: reputationHash,
		Resource: b.Resource, Rule: rule, RuntimeID: r.RuntimeID,
		Subject: b.Subject, TriggerEventID: o.EventID, TriggerKind: o.Kind, TriggerSource: o.Source,
	}, e.grant, func(decision evidence.PolicyDecision, hash string) evidence.ActionGrant {
		return evidence.ActionGrant{
			Actions: []string{b.Action}, BindingHashes: []string{bindingHash}, ContentHashes: []string{b.ContentHash},
			EnvironmentHash:      r.EnvironmentHash,
			OriginEvidenceHashes: []string{o.EvidenceHash}, OriginEvidenceIDs: []string{o.EvidenceID},
			OriginVerificationMethods: []string{o.VerificationMethod},
			PolicyDecisionHashes:      []string{hash}, PolicyDecisionIDs: []string{decision.ID}, PolicyHash: policyHash,
			Resources: []string{b.Resource}, RuntimeIDs: []string{r.RuntimeID}, Subject: b.Subject,
			TriggerEventIDs: []string{o.EventID}, TriggerSources: []string{o.Source},
		}
	})
	if err != nil {
		return policy.Decision{}, err
	}
	if e.decision.Name() == e.grant.Name() ||
		evidence.KeyName(evidence.KeyIDOf(tokens[0])) == evidence.KeyName(evidence.KeyIDOf(tokens[1])) {
		return policy.Decision{},
			refusal.New("key_purpose", "the policy engine and the authorization service have the same "+
				"issuer or the same key")
	}
	failpoint.Reach("granted")
	return policy.Decision{PolicyDecision: tokens[0], Grant: tokens[1]}, nil
}
