package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/internal/tables"
)

// Copy is a copy of a ledger's file, open for reading. It changes nothing and takes no lock.
type Copy struct {
	tables.Reader
	db *sql.DB
}

// OpenCopy opens the copy of a ledger's file at path, with path-wal beside it if the ledger was in use. Without a WAL
// the folder need not be writable.
func OpenCopy(ctx context.Context, path string) (*Copy, error) {
	c, err := openCopy(ctx, path)
	if err != nil {
		return nil, ledger.Unavailable("open "+filepath.Base(path), err)
	}
	return c, nil
}

func openCopy(ctx context.Context, path string) (*Copy, error) {
	if _, err := os.Stat(path); err != nil { // SQLite would not name a missing file
		return nil, err
	}
	// SQLite reads a file in another user's folder only as immutable. With a WAL that would omit the WAL's content.
	mode := "ro"
	switch wal, err := os.Stat(path + "-wal"); {
	case errors.Is(err, fs.ErrNotExist), err == nil && wal.Size() == 0:
		mode = "immutable"
	case err != nil:
		return nil, err
	}
	db, err := openSQLite(path, mode, reading)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(maxReaders)
	if err := schema.check(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Copy{tables.NewReader(db, dialect), db}, nil
}

func (s Schema) check(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, `SELECT user_version FROM pragma_user_version`).Scan(&version); err != nil {
		return err
	}
	if version != s.Version {
		return fmt.Errorf("it has schema version %d and this program reads %d: use the program that made it", version,
			s.Version)
	}
	// A view or a computed column can make any amount of text out of a few bytes.
	rows, err := db.QueryContext(ctx, `SELECT sql FROM sqlite_schema WHERE type IN ('table', 'view')
		AND name NOT LIKE 'sqlite_stat%'`)
	return tables.Each(rows, err, func() error {
		var text string
		if err := rows.Scan(&text); err != nil || strings.Contains(s.Statements, text) {
			return err
		}
		return fmt.Errorf("it has a table that no ledger has: %.80q", text)
	})
}

func (c *Copy) Close() error { return c.db.Close() }
