package sidecar

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
)

// openLedger opens the ledger that the configuration names: a file, or a PostgreSQL database.
func openLedger(ctx context.Context, c *config.Sidecar) (ledger.Store, error) {
	dir, retention := c.State, c.Retention.RetentionOr(ledger.DefaultRetention, 0)
	if c.LedgerDSN == "" {
		return ledger.Open(ctx, filepath.Join(dir, "ledger.db"), ledger.Options{Now: time.Now, Retention: retention})
	}
	name, held, err := ledger.Instance(dir)
	if err != nil {
		return nil, err
	}
	l, err := postgres.Open(ctx, c.LedgerDSN, postgres.Options{Now: time.Now, Retention: retention, Instance: name})
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return sharedLedger{l, held}, nil
}

// sharedLedger is a ledger in a database. It holds the name of this instance until it is closed.
type sharedLedger struct {
	ledger.Store
	held io.Closer
}

// Close closes the ledger and releases the name.
func (s sharedLedger) Close() error { return errors.Join(s.Store.Close(), s.held.Close()) }

// prunePeriod is how often the ledger removes what it need not keep any more.
const prunePeriod = 10 * time.Minute

func prune(ctx context.Context, record ledger.Store, log *zap.Logger) {
	for range every.Tick(ctx, prunePeriod) {
		if err := record.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			log.Error("the ledger could not be pruned", zap.Error(err))
		}
	}
}
