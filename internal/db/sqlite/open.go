package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	modernc "modernc.org/sqlite"

	"github.com/actionproof/mediator/internal/db"
)

// pragma is a setting that every connection gets and must confirm: SQLite silently ignores a misspelt one.
type pragma struct{ name, value, want string }

var (
	// synchronous=2 is FULL: with less, a consumed key could become free after a power cut. temp_store=2 keeps
	// temporary data in memory, because the process may write only beside the ledger. cache_size=-1024 gives each
	// connection 1 MiB, half of SQLite's default.
	writing = []pragma{
		{"busy_timeout", "5000", "5000"}, // milliseconds
		{"journal_mode", "WAL", "wal"},
		{"synchronous", "FULL", "2"},
		{"foreign_keys", "ON", "1"},
		{"temp_store", "MEMORY", "2"},
		{"cache_size", "-1000", "-1000"},
	}
	reading = []pragma{
		{"busy_timeout", "5000", "5000"},
		{"query_only", "ON", "1"},
		{"temp_store", "MEMORY", "2"},
		{"cache_size", "-1000", "-1000"},
	}
)

// create makes an empty file that only its owner may read. It never opens an existing one: closing that would drop the
// SQLite locks of another connection in this process (https://sqlite.org/howtocorrupt.html section 2.2).
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// openSQLite returns a pool of connections with confirmed pragmas. mode is rw or ro, as in an SQLite URI, or immutable
// for a file without writers.
func openSQLite(path, mode string, pragmas []pragma) (*sql.DB, error) {
	q := url.Values{"mode": {mode}}
	switch mode {
	case "rw":
		q.Set("_txlock", "immediate") // a transaction that reads first must not find another writer when it writes
	case "immutable":
		q = url.Values{"mode": {"ro"}, "immutable": {"1"}}
	}
	for _, p := range pragmas {
		q.Add("_pragma", p.name+"("+p.value+")")
	}
	c, err := modernc.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(checked{c, pragmas}), nil
}

type checked struct {
	driver.Connector
	pragmas []pragma
}

func (c checked) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range c.pragmas {
		if err := p.verify(ctx, conn); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

func (p pragma) verify(ctx context.Context, conn driver.Conn) error {
	q, ok := conn.(driver.QueryerContext)
	if !ok {
		return errors.New("the driver cannot read a pragma back")
	}
	rows, err := q.QueryContext(ctx, "PRAGMA "+p.name, nil)
	if err != nil {
		return fmt.Errorf("PRAGMA %s: %w", p.name, err)
	}
	got := make([]driver.Value, 1)
	if err := errors.Join(rows.Next(got), rows.Close()); err != nil {
		return fmt.Errorf("PRAGMA %s: %w", p.name, err)
	}
	if s := fmt.Sprint(got[0]); s != p.want {
		return fmt.Errorf("PRAGMA %s is %s and not %s: this file system or build cannot keep the ledger's promise",
			p.name, s, p.want)
	}
	return nil
}

// apply creates the schema in an empty file, and refuses another one. PRAGMA user_version holds the version; writing it
// each time finds a file that is not writable.
func apply(ctx context.Context, to *sql.DB, s db.Schema) error {
	tx, err := to.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	var version, tables int
	err = tx.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").
		Scan(&version, &tables)
	if err != nil {
		return err
	}
	if version == 0 && tables == 0 {
		if _, err := tx.ExecContext(ctx, s.Tables); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
	} else if version != s.Version {
		return fmt.Errorf("it has schema version %d and this program needs %d: use the program that made it. "+
			"A new file would forget %s", version, s.Version, s.Forgets)
	}
	// A pragma takes no parameters.
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", s.Version)); err != nil {
		return err
	}
	return tx.Commit()
}
