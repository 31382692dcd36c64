// Package sqlite keeps the ledger in an SQLite file of one process.
package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/actionproof/mediator/internal/db/sqlite"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// Options configure a [Ledger]. It has no Instance and no Chains.
type Options = ledger.Options

// Ledger is the [ledger.Store] in one SQLite file, for one process, with its [ledger.Log] and [ledger.Exports].
type Ledger struct{ *tables.Ledger }

// Open opens the ledger at path, or creates it with mode 0600. It refuses a file that is open already, has another
// schema, is not writable, or refuses the durability settings. Beside the file lie path-wal, path-shm and path.lock.
// Posts that an earlier process left in flight become indeterminate, because they may have been sent.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Now == nil || o.Instance+o.Chains != "" {
		return nil, errors.New("ledger: a file needs a clock, and takes no Instance and no Chains")
	}
	if _, err := os.Stat(path); o.Known && errors.Is(err, fs.ErrNotExist) {
		return nil, ledger.Gone(filepath.Base(path))
	}
	d, err := sqlite.Open(ctx, path, tables.Schema)
	if err != nil {
		return nil, err
	}
	l, err := tables.Open(ctx, d, o, tables.ConsumeInFile)
	if err != nil {
		return nil, err
	}
	return &Ledger{l}, nil
}

// Copy reads a copy of a ledger's file.
type Copy struct{ tables.Reader }

// OpenCopy opens the copy of a ledger's file at path, with path-wal beside it if the ledger was in use. It changes
// nothing and takes no lock. Without a WAL the folder need not be writable.
func OpenCopy(ctx context.Context, path string) (*Copy, error) {
	d, err := sqlite.OpenCopy(ctx, path, tables.Schema)
	if err != nil {
		return nil, err
	}
	return &Copy{tables.NewReader(d)}, nil
}
