package reputation

import (
	"context"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog"
)

// LogKey names the key that signs the checkpoints of the log of signals and disputes.
type LogKey struct {
	Key string `json:"key"` // as [translog.Key.String] has it
}

// LogKey returns the key that signs now.
func (s *Service) LogKey(ctx context.Context) (LogKey, error) {
	if s.o.Disputes == nil {
		return LogKey{}, errOff
	}
	k, err := s.o.Disputes.logKey(ctx)
	return LogKey{k.String()}, err
}

func (d *Disputes) logKey(ctx context.Context) (translog.Key, error) {
	v, err := d.Key.Current(ctx)
	if err != nil {
		return translog.Key{}, err
	}
	return translog.NewKey(d.Audience, v.Public(), v.Sign)
}

// DisputeLog returns the log of signals and disputes, or nil if the node takes none. Its entries are canonical JSON of
// package dispute.
func (s *Service) DisputeLog() ledger.TreeReader {
	if s.o.Disputes == nil {
		return nil
	}
	return disputeLog{s}
}

type disputeLog struct{ *Service }

// checkpoint is the last one, and the key that signed it.
type checkpoint struct {
	ledger.Checkpoint
	by string
}

// TreeHead implements [ledger.TreeReader]. It signs each state once.
func (l disputeLog) TreeHead(ctx context.Context) (head ledger.TreeHead, signed ledger.Checkpoints, err error) {
	defer func() {
		if err != nil {
			l.strangers.Error("the log of disputes has no checkpoint", zap.Error(err))
		}
	}()
	book, _, release, err := l.openBook(ctx)
	if err != nil {
		return head, signed, err
	}
	defer release()
	key, err := l.o.Disputes.logKey(ctx)
	if err != nil {
		return head, signed, err
	}
	head = book.Tree().Head()
	last := &l.docket.checkpoint
	if last.by != key.String() || last.Size != head.Size {
		c, err := key.Checkpoint(ctx, head)
		if err != nil {
			return head, signed, err
		}
		*last = checkpoint{c, key.String()}
	}
	return head, ledger.Checkpoints{Signed: last.Checkpoint, Accepted: last.Checkpoint}, nil
}

// Tiles implements [ledger.TreeReader].
func (l disputeLog) Tiles(ctx context.Context, tiles []ledger.Tile) error {
	book, _, release, err := l.openBook(ctx)
	if err != nil {
		return err
	}
	tree := book.Tree()
	release()
	return tree.Fill(tiles, func(from int64, n int) (entries []string, err error) {
		steps, err := l.o.Store.Steps(ctx, from+1, n)
		for _, one := range steps {
			entries = append(entries, one.Text)
		}
		return entries, err
	})
}
