package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	// maxQueue bounds the writes that wait for the writer; a further one waits for a place.
	maxQueue = 4096
	// maxBatch bounds the writes that share one transaction.
	maxBatch = 256
)

// DB is an SQLite file with one writer that commits in groups: every write that waits when a transaction begins shares its one
// fsync. A write that returned nil survives a crash of the process and of the machine. It is safe for concurrent use.
type DB struct {
	write *sql.DB // one connection, used by the writer alone
	read  *sql.DB
	queue chan *pending
	done  chan struct{}

	mu     sync.RWMutex // guards closed, and that nothing is queued after it is set
	closed bool
}

// pending is one write that waits for its transaction.
type pending struct {
	ctx  context.Context
	do   func(tx *sql.Tx) error
	errc chan error
}

// pragmas are set on every connection and read back on opening: a misspelt one would be ignored in silence.
// synchronous=2 is FULL: with less, a consumed key could live again after a power cut.
var pragmas = []struct{ name, value, want string }{
	{"journal_mode", "WAL", "wal"},
	{"synchronous", "FULL", "2"},
	{"busy_timeout", "5000", "5000"},
	{"foreign_keys", "ON", "1"},
}

// OpenDB opens or creates the file at path (mode 0600; its folder must exist) and applies the migrations that it lacks, each a
// list of statements. A file that a newer program has written is refused.
func OpenDB(ctx context.Context, path string, migrations []string) (*DB, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unavailable("open", err)
	}
	if err := f.Close(); err != nil {
		return nil, unavailable("open", err)
	}
	d := &DB{queue: make(chan *pending, maxQueue), done: make(chan struct{})}
	if d.write, err = openSQLite(path, "rw"); err != nil {
		return nil, unavailable("open", err)
	}
	d.write.SetMaxOpenConns(1)
	if err := errors.Join(verifyPragmas(ctx, d.write), migrate(ctx, d.write, migrations)); err != nil {
		d.write.Close()
		return nil, unavailable("open "+filepath.Base(path), err)
	}
	if d.read, err = openSQLite(path, "ro"); err != nil {
		d.write.Close()
		return nil, unavailable("open", err)
	}
	d.read.SetMaxOpenConns(8)
	go d.run()
	return d, nil
}

func openSQLite(path, mode string) (*sql.DB, error) {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}}
	for _, p := range pragmas {
		if mode == "ro" && p.name == "journal_mode" {
			continue // a reader cannot set it, and finds it in the file
		}
		q.Add("_pragma", p.name+"("+p.value+")")
	}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
}

func verifyPragmas(ctx context.Context, db *sql.DB) error {
	for _, p := range pragmas {
		var got string
		if err := db.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(&got); err != nil {
			return err
		}
		if got != p.want {
			return fmt.Errorf("PRAGMA %s is %s instead of %s", p.name, got, p.want)
		}
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB, migrations []string) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("the file has schema version %d; this program knows %d: use the newer program", version, len(migrations))
	}
	for ; version < len(migrations); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, migrations[version])
		if err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+1))
		}
		if err != nil {
			return errors.Join(fmt.Errorf("migration %d: %w", version+1, err), tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// Read returns a pool for reading. It sees what has been committed.
func (d *DB) Read() *sql.DB { return d.read }

// Write runs do in a transaction and returns once it is durable. An error of do's own rolls back what do did, and nothing else.
// After an error of the commit nobody knows whether it was stored: count it as stored. A ctx that ends before do has begun means
// that do did not run; afterwards it no longer matters.
func (d *DB) Write(ctx context.Context, do func(tx *sql.Tx) error) error {
	p := &pending{ctx: ctx, do: do, errc: make(chan error, 1)}
	if err := d.enqueue(ctx, p); err != nil {
		return err
	}
	return <-p.errc
}

func (d *DB) enqueue(ctx context.Context, p *pending) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return ErrClosed
	}
	select {
	case d.queue <- p:
		return nil
	case <-ctx.Done():
		return unavailable("wait for the writer", ctx.Err())
	}
}

// Close makes what has been accepted durable and closes the file.
func (d *DB) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.queue)
	d.mu.Unlock()
	<-d.done
	return errors.Join(d.read.Close(), d.write.Close())
}

// run is the writer: it takes all that waits, up to maxBatch, into one transaction.
func (d *DB) run() {
	defer close(d.done)
	for first := range d.queue {
		batch := []*pending{first}
	fill:
		for len(batch) < maxBatch {
			select {
			case p, ok := <-d.queue:
				if !ok {
					break fill
				}
				batch = append(batch, p)
			default:
				break fill
			}
		}
		d.commit(batch)
	}
}

// commit runs a batch in one transaction. Each write has a savepoint of its own, so that one refusal leaves the others alone.
func (d *DB) commit(batch []*pending) {
	tx, err := d.write.Begin()
	if err != nil {
		answer(batch, unavailable("begin", err))
		return
	}
	var stored []*pending
	for _, p := range batch {
		if err := p.ctx.Err(); err != nil {
			p.errc <- unavailable("wait for the writer", err)
			continue
		}
		if err := inSavepoint(tx, p.do); err != nil {
			p.errc <- err
			continue
		}
		stored = append(stored, p)
	}
	if err := tx.Commit(); err != nil {
		answer(stored, unavailable("commit", err))
		_ = tx.Rollback()
		return
	}
	answer(stored, nil)
}

func answer(batch []*pending, err error) {
	for _, p := range batch {
		p.errc <- err
	}
}

func inSavepoint(tx *sql.Tx, do func(*sql.Tx) error) (err error) {
	if _, err := tx.Exec("SAVEPOINT one"); err != nil {
		return unavailable("savepoint", err)
	}
	defer func() {
		if v := recover(); v != nil { // one caller's fault must not end the writer for all
			err = unavailable("write", fmt.Errorf("panic: %v", v))
		}
		end := "RELEASE one"
		if err != nil {
			end = "ROLLBACK TO one; RELEASE one"
		}
		if _, e := tx.Exec(end); e != nil {
			err = errors.Join(err, unavailable("savepoint", e))
		}
	}()
	return do(tx)
}
