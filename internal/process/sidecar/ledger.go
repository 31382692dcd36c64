package sidecar

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
)

// openLedger opens the ledger, and returns its further parts too. It refuses one that replaced the last one of this
// sidecar. logged and ended are as for openStore.
func openLedger(ctx context.Context, c *config.Sidecar, logged, ended func(), log *zap.Logger) (*ledger.Watched, store,
	error) {
	_, known, err := ledger.LastSeen(markFile(c))
	if err != nil {
		return nil, nil, err
	}
	s, err := openStore(ctx, c, known, logged, ended)
	if err != nil {
		return nil, nil, err
	}
	w, err := ledger.Watch(ctx, s, markFile(c), func(err error) {
		log.Error("the mark of the ledger could not be noted, or the ledger was replaced", zap.Error(err))
	})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return w, s, nil
}

// markFile identifies the ledger that the sidecar used last.
func markFile(c *config.Sidecar) string { return filepath.Join(c.State, "ledger-mark.json") }

// store is a ledger with its transparency log and its list of records to export.
type store interface {
	ledger.Identified
	ledger.Log
	ledger.Exports
}

// openStore opens the ledger: a file or a PostgreSQL database. It makes no new file for a known ledger. If the
// configuration has a transparency log, the ledger keeps it, and logged gets word of each change. If it has an audit
// export, the ledger keeps the list, and ended gets word of each record.
func openStore(ctx context.Context, c *config.Sidecar, known bool, logged, ended func()) (store, error) {
	retention := c.Retention.Or(ledger.DefaultRetention)
	if c.TransparencyLog == nil {
		logged = nil
	}
	if c.AuditExport == nil {
		ended = nil
	}
	if c.Ledger.Postgres.ConnString() == "" {
		return sqlite.Open(ctx, filepath.Join(c.State, "ledger.db"),
			sqlite.Options{Now: time.Now, Retention: retention, Known: known, Logged: logged, Ended: ended})
	}
	name, held, err := postgres.Instance(c.State)
	if err != nil {
		return nil, err
	}
	l, err := postgres.Open(ctx, c.Ledger.Postgres.ConnString(), postgres.Options{Now: time.Now, Retention: retention,
		Instance: name, Chains: filepath.Join(c.State, "chains"), Logged: logged, Ended: ended})
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return sharedLedger{l, held}, nil
}

// sharedLedger is a ledger in a database. It holds the name of this instance until it is closed.
type sharedLedger struct {
	store
	held io.Closer
}

// Close closes the ledger and releases the name.
func (s sharedLedger) Close() error { return errors.Join(s.store.Close(), s.held.Close()) }

// forgetfulness is the time in which an accepted ledger refuses keys: the longest life of an artifact that the other
// ledger may have seen, and a minute for clocks that differ.
const forgetfulness = 11 * time.Minute

// AcceptedLedger says which ledger was accepted.
type AcceptedLedger struct {
	ledger.Acceptance
	RefusedUntil time.Time `json:"refusedUntil"` // posts with keys that expire by then are refused
}

// AcceptLedger accepts the ledger of the configuration at path in place of the last one of its sidecar, and records
// that in the ledger. The sidecar must not run. A process of root becomes one of the sidecar's user.
func AcceptLedger(ctx context.Context, path, reason string) (a AcceptedLedger, err error) {
	c, err := config.Load[config.Sidecar](path)
	if err != nil {
		return a, err
	}
	last, seen, unread := ledger.LastSeen(markFile(c)) // an unreadable mark is replaced too
	if !seen && unread == nil {
		return a, refusal.New("query_malformed",
			"there is no change to accept: the sidecar configured in %s has not used a ledger yet",
			path)
	}
	if err := becomeOwner(c.State); err != nil {
		return a, err
	}
	s, err := openStore(ctx, c, false, func() {}, func() {})
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	found, err := s.Identity(ctx)
	if err != nil {
		return a, err
	}
	if seen {
		switch follows, err := ledger.Follows(ctx, s, found, last); {
		case err != nil:
			return a, err
		case follows:
			return a, refusal.New("query_malformed",
				"the ledger is the one that the sidecar used last, so there is nothing to accept")
		}
	}
	now := time.Now().UTC()
	a = AcceptedLedger{ledger.Acceptance{At: now, Was: last, Found: found, Reason: reason}, now.Add(forgetfulness)}
	if err := s.Accept(ctx, a.Acceptance, a.RefusedUntil); err != nil {
		return a, err
	}
	if found, err = s.Identity(ctx); err != nil { // with the acceptance
		return a, err
	}
	return a, ledger.Note(markFile(c), found)
}

// becomeOwner makes root's process one of the folder's owner for good. Otherwise the sidecar could not open the files
// that the process makes there.
func becomeOwner(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(int(owner.Gid)), syscall.Setuid(int(owner.Uid)))
}

const prunePeriod = 10 * time.Minute

// prune removes what is old from the ledger, until ctx ends. After the clock has jumped ahead, it goes by the time
// before: if the jump was wrong, all records would be lost.
func prune(ctx context.Context, record ledger.Store, now func() time.Time, log *zap.Logger) {
	last := now()
	for range every.Tick(ctx, prunePeriod) {
		at := now()
		by := at
		if at.Round(0).Sub(last.Round(0)) > 2*prunePeriod { // without the monotonic clock
			by = last
		}
		last = at
		if err := record.Prune(ctx, by); err != nil && ctx.Err() == nil {
			log.Error("the ledger could not be pruned", zap.Error(err))
		}
	}
}
