package reputation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
)

const (
	// maxSamples bounds the sessions behind a baseline: the owner's last closed ones.
	maxSamples = 1000
	// baselineEvery is the age at which a baseline is replaced, unless the samples have grown by a tenth.
	baselineEvery = time.Hour
)

// Baselines makes a baseline for each owner with enough new samples.
func (s *Service) Baselines(ctx context.Context) error {
	grown, err := s.o.Store.Grown(ctx)
	if err != nil {
		return err
	}
	for _, g := range grown {
		if err := s.baselineOf(ctx, g); err != nil {
			return fmt.Errorf("the owner %s: %w", g.Owner, err)
		}
	}
	return nil
}

func (s *Service) baselineOf(ctx context.Context, g store.Grown) error {
	last, err := s.o.Store.LastBaseline(ctx, g.Owner)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	now := s.o.Now()
	if g.Samples == last.Samples || now.Sub(last.Made) < baselineEvery && 10*g.Samples < 11*last.Samples {
		return nil
	}
	samples, err := s.o.Store.Samples(ctx, g.Owner, maxSamples)
	if err != nil {
		return err
	}
	b := autonomy.NewBaseline(g.Owner, samples)
	hash, err := b.Hash()
	if err != nil {
		return err
	}
	document, err := json.Marshal(b)
	if err != nil {
		return err
	}
	failpoint.Reach("baseline made")
	err = s.o.Store.AddBaseline(ctx, store.Baseline{
		Hash: hash, Owner: g.Owner, Number: last.Number + 1, Made: now, Samples: g.Samples, Document: string(document),
	})
	if errors.Is(err, store.ErrMoved) {
		return nil // a replica was faster, or the same baseline existed before
	}
	if err == nil {
		s.o.Log.Info("baseline made", zap.String("owner", g.Owner), zap.String("hash", hash), zap.Int64("samples", g.Samples))
	}
	return err
}

func (s *Service) inForce(ctx context.Context, owner string) (*autonomy.Baseline, string, error) {
	kept, err := s.o.Store.LastBaseline(ctx, owner)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	var b autonomy.Baseline
	if err := json.Unmarshal([]byte(kept.Document), &b); err != nil {
		return nil, "", fmt.Errorf("the baseline %s: %w", kept.Hash, err)
	}
	return &b, kept.Hash, nil
}

// Baseline returns the snapshot with this hash, as JSON.
func (s *Service) Baseline(ctx context.Context, hash string) ([]byte, error) {
	kept, err := s.o.Store.Baseline(ctx, hash)
	if errors.Is(err, store.ErrNotFound) {
		return nil, refusal.New("not_found", "the node has no baseline %.64q", hash)
	}
	return []byte(kept.Document), err
}
