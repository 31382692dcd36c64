package reputation

import (
	"context"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/translog"
)

// DisputeLog is a [ledger.TreeReader] of signals and disputes. Its entries are canonical JSON of package dispute.
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
	book, err := l.s.openBook(ctx)
	if err != nil {
		return head, signed, err
	}
	key, err := l.Key(ctx)
	if err != nil {
		return head, signed, err
	}
	head = book.Tree().Head()
	d := l.s.docket
	d.mu.Lock()
	last, by := d.signed, d.signer
	d.mu.Unlock()
	if by != key.String() || last.Size != head.Size {
		if last, err = key.Checkpoint(ctx, head); err != nil {
			return head, signed, err
		}
		d.mu.Lock()
		d.signed, d.signer = last, key.String()
		d.mu.Unlock()
	}
	return head, ledger.Checkpoints{Signed: last, Accepted: last}, nil
}

// Tiles reads what the log has now.
func (l DisputeLog) Tiles(ctx context.Context, tiles []ledger.Tile) error {
	book, err := l.s.openBook(ctx)
	if err != nil {
		return err
	}
	return translog.Fill(book.Tree().Size, tiles, steps{ctx, l.s.o.Store})
}

// steps implements [translog.Rows]. The store counts from 1.
type steps struct {
	ctx   context.Context
	store *store.Store
}

func (s steps) Entries(from int64, n int) ([]string, error) { return s.store.Steps(s.ctx, from+1, n) }

func (s steps) Completed(place int, entries []int64) ([]tlog.Hash, error) {
	for i := range entries {
		entries[i]++
	}
	return s.store.Completed(s.ctx, place, entries)
}

// Check compares the state of the log of disputes with the log's end. An audit replays it.
func (s *Service) Check(ctx context.Context) error {
	if s.o.Disputes == nil {
		return nil
	}
	return s.o.Store.Turn(ctx, func(t *store.Turn) error { // in which no replica adds to the log
		return t.Tree().Check(steps{ctx, s.o.Store})
	})
}
