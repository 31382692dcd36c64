package trigger

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/signer"
)

// Evidence are the two artifacts for one event and one binding.
type Evidence struct {
	OriginProof    string `json:"originProof"`
	TriggerReceipt string `json:"triggerReceipt"`
}

// Evidence signs for an event and a binding. It does so only for a claimed event that the service verified itself, that
// no human asked for, inside its age and its budget; the budget is spent, durably, before anything is signed, and given
// back if nothing could be signed. Whoever loses the answer has lost one post: the same binding is paid for once. See
// [Service.Unsent].
//
// Refusals: artifact_malformed, not_found, human_involved, trigger_unverified, event_closed.
func (s *Service) Evidence(ctx context.Context, eventID string, b evidence.Binding) (Evidence, error) {
	if err := b.CheckNonce(); err != nil {
		return Evidence{}, err
	}
	binding := b.Hash()
	if !evidence.IsHash(binding) {
		return Evidence{}, refusal.New("artifact_malformed", "the binding has no canonical form")
	}
	failpoint.Reach("asked")
	e, err := s.store.spend(ctx, eventID, b.Action, binding, s.o.Budget, s.o.Now())
	if err != nil {
		return Evidence{}, err
	}
	failpoint.Reach("spent")
	signed, err := s.sign(ctx, e, binding)
	if err != nil {
		s.giveBack(ctx, e.ID, b.Action, binding)
	}
	return signed, err
}

// giveBack takes back what was paid for a post for which nothing was signed. If that fails too, the event stays poorer
// by one post.
func (s *Service) giveBack(ctx context.Context, id, action, binding string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if err := s.store.giveBack(ctx, id, action, binding); err != nil {
		s.o.Log.Error("an event has paid for a post that could not be signed", zap.String("event", id), zap.Error(err))
	}
}

// giveBackTimeout bounds the wait for the store, after an agent has perhaps gone.
const giveBackTimeout = 2 * time.Second

// sign makes the two artifacts. The proof is this process's own, so the receipt can rest on its hash without opening it
// again.
func (s *Service) sign(ctx context.Context, e Event, binding string) (Evidence, error) {
	tokens, err := signer.SignPair(ctx, s.o.Origin, evidence.TriggerOriginProof{
		Kind: e.Kind, Source: e.Source, VerificationMethod: e.Method, EventID: e.ID, EvidenceID: e.EvidenceID,
		PayloadHash: e.PayloadHash, BindingHash: binding, EvidenceHash: e.EvidenceHash,
	}, s.o.Receipt, func(_ evidence.TriggerOriginProof, hash string) evidence.TriggerReceipt {
		return evidence.TriggerReceipt{
			Kind: e.Kind, Source: e.Source, EventID: e.ID, PayloadHash: e.PayloadHash, BindingHash: binding,
			HumanInitiated: e.HumanInitiated, OriginProofHash: hash,
		}
	})
	if err != nil {
		return Evidence{}, err
	}
	failpoint.Reach("receipt signed")
	return Evidence{OriginProof: tokens[0], TriggerReceipt: tokens[1]}, nil
}
