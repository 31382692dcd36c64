// Package store keeps the node's state durably: receipt chains, challenges, used caller tokens, baselines, and the logs
// of agents and of disputes. It is an SQLite file of one node, or a PostgreSQL schema that replicas share. It verifies
// nothing.
package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/backend"
)

// Errors to test for. All others have the code ledger_unavailable.
var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("store: not found")
	// ErrMoved means that a session, a challenge or a log was changed meanwhile: read it and try again.
	ErrMoved = errors.New("store: changed meanwhile")
	// ErrDuplicate means that the call already has a receipt, or the id a signal or dispute.
	ErrDuplicate = errors.New("store: already there")
	// ErrFull means that the owner has as many sessions, receipts or challenges as it may have.
	ErrFull = errors.New("store: the owner has no room left")
	// ErrUsed means that a single-use token was used before.
	ErrUsed = errors.New("store: used before")
)

// Store is safe for concurrent use, also by several processes if it is in PostgreSQL.
type Store struct {
	db    *db.DB
	turns sync.Mutex // of a file
}

// Open opens a schema of the PostgreSQL database that dsn names, or without a dsn the SQLite file at path.
func Open(ctx context.Context, path, dsn string) (*Store, error) {
	return open(ctx, path, dsn, false)
}

// OpenExisting is [Open] for a store that exists, to read it: it makes neither a schema nor a file.
func OpenExisting(ctx context.Context, path, dsn string) (*Store, error) {
	return open(ctx, path, dsn, true)
}

func open(ctx context.Context, path, dsn string, existing bool) (*Store, error) {
	s := schema
	s.Existing = existing
	d, err := backend.Open(ctx, path, dsn, s)
	if err != nil {
		return nil, err
	}
	return &Store{db: d}, nil
}

// Clock returns the clock that all replicas share. It is nil for a file, which has one process.
func (s *Store) Clock() func(ctx context.Context) (time.Time, error) { return s.db.Clock() }

// Close makes what was accepted durable and closes the store.
func (s *Store) Close() error { return s.db.Close() }
