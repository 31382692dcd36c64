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

// Evidence holds the two tokens for one post.
type Evidence struct {
	OriginProof    string `json:"originProof"`
	TriggerReceipt string `json:"triggerReceipt"`
}

// Evidence signs for an event and a binding. The event must be claimed, verified, not asked for by a human, recent
// enough and within its budget. It pays durably before anything is signed, and gets a refund if nothing could be
// signed. It pays for a binding only once, so a lost answer costs one post (see [Service.Unsent]).
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

// giveBack refunds a post for which nothing was signed. If that fails too, the event has lost a post.
func (s *Service) giveBack(ctx context.Context, id, action, binding string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if err := s.store.giveBack(ctx, id, action, binding); err != nil {
		s.o.Log.Error("an event has paid for a post that could not be signed", zap.String("event", id), zap.Error(err))
	}
}

const giveBackTimeout = 2 * time.Second

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
