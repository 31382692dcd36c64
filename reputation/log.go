package reputation

import (
	"context"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog"
)

// DisputeLog reads the log of signals and disputes, whose entries are canonical JSON of package dispute. It implements
// [ledger.TreeReader].
type DisputeLog struct{ s *Service }

// DisputeLog returns the log of signals and disputes. It refuses if the node takes none.
func (s *Service) DisputeLog() (DisputeLog, error) {
	if s.o.Disputes == nil {
		return DisputeLog{}, errOff
	}
	return DisputeLog{s}, nil
}

// Key returns the key that signs checkpoints now.
func (l DisputeLog) Key(ctx context.Context) (translog.Key, error) {
	d := l.s.o.Disputes
	v, err := d.Key.Current(ctx)
	if err != nil {
		return translog.Key{}, err
	}
	return translog.NewKey(d.Audience, v.Public(), v.Sign)
}

// TreeHead signs each state once.
func (l DisputeLog) TreeHead(ctx context.Context) (head ledger.TreeHead, signed ledger.Checkpoints, err error) {
	book, release, err := l.s.openBook(ctx)
	if err != nil {
		return head, signed, err
	}
	defer release()
	key, err := l.Key(ctx)
	if err != nil {
		return head, signed, err
	}
	head = book.Tree().Head()
	d := l.s.docket
	if d.signer != key.String() || d.signed.Size != head.Size {
		if d.signed, err = key.Checkpoint(ctx, head); err != nil {
			return head, signed, err
		}
		d.signer = key.String()
	}
	return head, ledger.Checkpoints{Signed: d.signed, Accepted: d.signed}, nil
}

// Tiles reads what the log has now.
func (l DisputeLog) Tiles(ctx context.Context, tiles []ledger.Tile) error {
	book, release, err := l.s.openBook(ctx)
	if err != nil {
		return err
	}
	tree := book.Tree()
	release()
	return tree.Fill(tiles, func(from int64, n int) (entries []string, err error) {
		steps, err := l.s.o.Store.Steps(ctx, from+1, n)
		for _, one := range steps {
			entries = append(entries, one.Text)
		}
		return entries, err
	})
}
