package policy

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

// Request asks for a decision about one post.
type Request struct {
	Binding         evidence.Binding `json:"binding"`
	ChallengeID     string           `json:"challengeId"`
	RuntimeID       string           `json:"runtimeId"`
	SessionID       string           `json:"sessionId"`
	EnvironmentHash string           `json:"environmentHash"`
	OriginProof     string           `json:"originProof"`
	TriggerReceipt  string           `json:"triggerReceipt"`
	Call            Call             `json:"call"`
}

// Call is the call as the sidecar sees it.
type Call struct {
	Method      string `json:"method"`
	Scheme      string `json:"scheme"`
	Host        string `json:"host"`
	Path        string `json:"path"`
	Rule        string `json:"rule"`        // the action rule that matched
	ContentKind string `json:"contentKind"` // json or raw
	Size        int64  `json:"size"`        // of the body, in bytes
}

// Decision are the two artifacts that allow one post.
type Decision struct {
	PolicyDecision string `json:"policyDecision"`
	Grant          string `json:"grant"`
}

// EngineOptions configure an [Engine]; all are required.
type EngineOptions struct {
	Now func() time.Time
	Log *zap.Logger
}

// Engine decides single posts, and grants what it allows. It is safe for concurrent use.
type Engine struct {
	rules    *Rules
	verifier *evidence.Verifier
	strict   *Strict
	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
	o        EngineOptions
}

// NewEngine makes an Engine, and refuses rules that are not those that the manifest pins.
func NewEngine(rules *Rules, v *evidence.Verifier, s *Strict, decision *signer.Issuer[evidence.PolicyDecision], grant *signer.Issuer[evidence.ActionGrant], o EngineOptions) (*Engine, error) {
	if rules == nil || v == nil || s == nil || decision == nil || grant == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("policy: the engine lacks one of its parts")
	}
	if rules.Hash() != s.Runtime.PolicyHash {
		return nil, evidence.Refuse("policy_hash_mismatch", "the policy file has hash %s, but the manifest requires %s", rules.Hash(), s.Runtime.PolicyHash)
	}
	return &Engine{rules: rules, verifier: v, strict: s, decision: decision, grant: grant, o: o}, nil
}

// Decide verifies the trigger evidence by itself, evaluates the rules, and signs a decision and a grant for exactly this post.
func (e *Engine) Decide(ctx context.Context, r Request) (Decision, error) {
	if err := r.Binding.CheckNonce(); err != nil {
		return Decision{}, err
	}
	if r.EnvironmentHash != e.strict.Runtime.EnvironmentHash {
		return Decision{}, evidence.Refuse("environment_mismatch", "the runtime runs another environment than the manifest requires")
	}
	if !slices.Contains(e.strict.Runtime.RuntimeIDs, r.RuntimeID) {
		return Decision{}, evidence.Refuse("runtime_not_allowed", "the manifest does not allow the runtime %q", r.RuntimeID)
	}
	origin, err := VerifyTrigger(e.verifier, e.strict, r.OriginProof, r.TriggerReceipt, r.Binding.Hash())
	if err != nil {
		return Decision{}, err
	}
	rule, err := e.rules.decide(facts{binding: r.Binding, call: r.Call, origin: origin, runtime: r.RuntimeID, session: r.SessionID, now: e.o.Now()})
	if err != nil {
		return Decision{}, err
	}
	d, err := e.sign(ctx, r, origin, rule)
	if err == nil {
		e.o.Log.Info("allowed", zap.String("rule", rule), zap.String("event", origin.EventID), zap.String("action", r.Binding.Action), zap.String("resource", r.Binding.Resource))
	}
	return d, err
}

// VerifyTrigger verifies an origin proof and the trigger receipt that rests on it, for one binding, and returns the proof's claims.
func VerifyTrigger(v *evidence.Verifier, s *Strict, proof, receipt, bindingHash string) (evidence.TriggerOriginProof, error) {
	o, err := evidence.Open(v, evidence.TriggerOriginProofKind, proof, s.Origin.Expected)
	if err != nil {
		return evidence.TriggerOriginProof{}, err
	}
	r, err := evidence.Open(v, evidence.TriggerReceiptKind, receipt, s.Receipt.Expected)
	if err != nil {
		return evidence.TriggerOriginProof{}, err
	}
	return o, CheckTrigger(s, o, r, evidence.HashToken(proof), bindingHash)
}

// CheckTrigger holds the claims of an opened origin proof and trigger receipt against each other, the policy and the binding.
func CheckTrigger(s *Strict, o evidence.TriggerOriginProof, r evidence.TriggerReceipt, proofHash, bindingHash string) error {
	switch {
	case o.BindingHash != bindingHash:
		return evidence.Refuse("origin_binding_mismatch", "the origin proof is for another binding")
	case r.BindingHash != bindingHash:
		return evidence.Refuse("receipt_binding_mismatch", "the trigger receipt is for another binding")
	case r.OriginProofHash != proofHash:
		return evidence.Refuse("receipt_other_origin", "the trigger receipt rests on another origin proof")
	case r.EventID != o.EventID || r.PayloadHash != o.PayloadHash:
		return evidence.Refuse("receipt_event_mismatch", "the trigger receipt and the origin proof are for different events")
	case r.Kind != o.Kind || r.Source != o.Source:
		return evidence.Refuse("receipt_source_mismatch", "the trigger receipt and the origin proof name different kinds or sources")
	case r.HumanInitiated:
		return evidence.Refuse("trigger_human", "the trigger receipt says that a human asked for it")
	case !slices.Contains(autonomousKinds, o.Kind) || !slices.Contains(s.Origin.Kinds, o.Kind) || !slices.Contains(s.Receipt.Kinds, r.Kind):
		return evidence.Refuse("trigger_kind_not_allowed", "the policy does not allow triggers of kind %q", o.Kind)
	case !slices.Contains(s.Origin.Sources, o.Source) || !slices.Contains(s.Receipt.Sources, r.Source):
		return evidence.Refuse("trigger_source_not_allowed", "the policy does not allow the trigger source %q", o.Source)
	case !slices.Contains(verifiedMethods, o.VerificationMethod) || !slices.Contains(s.Origin.Methods, o.VerificationMethod):
		return evidence.Refuse("trigger_method_not_allowed", "the policy does not allow origins verified by %q", o.VerificationMethod)
	}
	return nil
}

// sign signs the decision and, over its id and hash, the grant. Every scope of the grant has exactly one element.
func (e *Engine) sign(ctx context.Context, r Request, o evidence.TriggerOriginProof, rule string) (Decision, error) {
	b, bindingHash := r.Binding, r.Binding.Hash()
	token, decision, err := e.decision.Sign(ctx, evidence.PolicyDecision{
		Action: b.Action, BindingHash: bindingHash, ChallengeID: r.ChallengeID, ContentHash: b.ContentHash, Decision: evidence.DecisionAllow,
		EnvironmentHash: r.EnvironmentHash, OriginEvidenceHash: o.EvidenceHash, OriginEvidenceID: o.EvidenceID,
		OriginVerificationMethod: o.VerificationMethod, PolicyHash: e.rules.Hash(), Resource: b.Resource, Rule: rule, RuntimeID: r.RuntimeID,
		Subject: b.Subject, TriggerEventID: o.EventID, TriggerKind: o.Kind, TriggerSource: o.Source,
	})
	if err != nil {
		return Decision{}, err
	}
	grant, _, err := e.grant.Sign(ctx, evidence.ActionGrant{
		Actions: []string{b.Action}, BindingHashes: []string{bindingHash}, ContentHashes: []string{b.ContentHash}, EnvironmentHash: r.EnvironmentHash,
		OriginEvidenceHashes: []string{o.EvidenceHash}, OriginEvidenceIDs: []string{o.EvidenceID}, OriginVerificationMethods: []string{o.VerificationMethod},
		PolicyDecisionHashes: []string{evidence.HashToken(token)}, PolicyDecisionIDs: []string{decision.ID}, PolicyHash: e.rules.Hash(),
		Resources: []string{b.Resource}, RuntimeIDs: []string{r.RuntimeID}, Subject: b.Subject,
		TriggerEventIDs: []string{o.EventID}, TriggerSources: []string{o.Source},
	})
	if err != nil {
		return Decision{}, err
	}
	return Decision{PolicyDecision: token, Grant: grant}, nil
}
