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

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/ledger"
)

// OpenCopy opens the copy of a file at path for reading, with path-wal beside it if the file was in use. It changes
// nothing and takes no lock. Without a WAL the folder need not be writable.
func OpenCopy(ctx context.Context, path string, s db.Schema) (*db.DB, error) {
	read, err := openCopy(ctx, path, s)
	if err != nil {
		return nil, ledger.Unavailable("open "+filepath.Base(path), err)
	}
	return db.New(s, db.Backend{Read: read, Close: read.Close}), nil
}

func openCopy(ctx context.Context, path string, s db.Schema) (*sql.DB, error) {
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
	read, err := openSQLite(path, mode, reading)
	if err != nil {
		return nil, err
	}
	read.SetMaxOpenConns(maxReaders)
	if err := verify(ctx, read, s); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	return read, nil
}

// verify refuses tables that are not those of the schema: a view or a computed column can make any amount of text out
// of a few bytes.
func verify(ctx context.Context, read *sql.DB, s db.Schema) error {
	var version int
	if err := read.QueryRowContext(ctx, `SELECT user_version FROM pragma_user_version`).Scan(&version); err != nil {
		return err
	}
	if version != s.Version {
		return fmt.Errorf("it has schema version %d and this program reads %d: use the program that made it", version,
			s.Version)
	}
	return db.Each(ctx, db.New(s, db.Backend{Read: read}), "read", `SELECT sql FROM sqlite_schema
		WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_stat%'`, nil, func(text string) error {
		if !strings.Contains(s.Tables, text) {
			return fmt.Errorf("it has a table that no ledger has: %.80q", text)
		}
		return nil
	})
}
