package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

const (
	// maxWaiting bounds the writes that wait for the writer. A further one waits for a place.
	maxWaiting = 4096
	// maxReaders bounds the connections of the reading pool.
	maxReaders = 8
)

// DB is an SQLite file with one writer that commits in groups: all waiting writes share a transaction and its one
// fsync. A write that returned nil survives a crash of the process and of the machine. A DB is safe for concurrent use.
// The file belongs to one DB at a time.
type DB struct {
	path  string
	file  os.FileInfo // of the file that was opened
	write *sql.DB     // one connection; after opening only the writer uses it
	read  *sql.DB
	queue chan *write
	done  chan struct{} // closed when the writer has ended
	close func() error

	// Prepared once, because each write needs them.
	savepoint, release, undo *sql.Stmt

	mu     sync.RWMutex // held for reading while queueing, so that nothing is queued once closed is set
	closed bool
}

// Schema is what a program expects in its file.
type Schema struct {
	Version    int    // above zero; another one for each other schema
	Statements string // that make it
	Forgets    string // what a new file would forget; said where a file is refused, so that it is not replaced lightly
}

// OpenDB opens the file at path, or creates it with mode 0600 and the schema. The folder must exist. It refuses a file
// that is open in another DB, has another schema, cannot be written, or refuses the settings for durability. The error
// has the code ledger_unavailable. Beside the file lie path-wal, path-shm and path.lock.
func OpenDB(ctx context.Context, path string, s Schema) (*DB, error) {
	d := &DB{path: path, queue: make(chan *write, maxWaiting), done: make(chan struct{})}
	if err := d.open(ctx, s); err != nil {
		return nil, ledger.Unavailable("open "+filepath.Base(path), err)
	}
	go d.run()
	return d, nil
}

// open opens all parts of the DB or none, and sets d.close, which closes them in reverse.
func (d *DB) open(ctx context.Context, s Schema) (err error) {
	var opened []func() error
	closeAll := func() error {
		var errs []error
		for i := len(opened) - 1; i >= 0; i-- {
			errs = append(errs, opened[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()

	if err := files.Writable(d.path); err != nil {
		return err
	}
	held, err := files.Lock(d.path)
	if err != nil {
		return err
	}
	opened = append(opened, held.Close)
	if err := create(d.path); err != nil {
		return err
	}
	if d.write, err = openSQLite(d.path, "rw", writing); err != nil {
		return err
	}
	opened = append(opened, d.write.Close)
	d.write.SetMaxOpenConns(1)
	if err := s.apply(ctx, d.write); err != nil {
		return err
	}
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{{&d.savepoint, "SAVEPOINT one"}, {&d.release, "RELEASE one"}, {&d.undo, "ROLLBACK TO one"}} {
		if *s.to, err = d.write.PrepareContext(ctx, s.query); err != nil {
			return err
		}
	}
	if d.file, err = os.Stat(d.path); err != nil {
		return err
	}
	if d.read, err = openSQLite(d.path, "ro", reading); err != nil {
		return err
	}
	opened = append(opened, d.read.Close)
	d.read.SetMaxOpenConns(maxReaders)
	d.close = sync.OnceValue(func() error {
		d.mu.Lock()
		d.closed = true
		close(d.queue)
		d.mu.Unlock()
		<-d.done
		return closeAll()
	})
	return nil
}

// Read returns a pool for reading. It sees committed data, and refuses writes.
func (d *DB) Read() *sql.DB { return d.read }

// Prepare prepares a statement for writes, through tx.Stmt: parsing one costs more than running it. Call it before the
// first write. The DB closes it.
func (d *DB) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	s, err := d.write.PrepareContext(ctx, query)
	if err != nil {
		return nil, ledger.Unavailable("prepare", err)
	}
	return s, nil
}

// Write runs do in a transaction and returns nil once it is durable.
//
// If do fails or panics, or ctx ends before do has begun, nothing was stored. After any other error, which has the code
// ledger_unavailable, the outcome is unknown: count it as stored.
//
// Once do has begun, ctx no longer matters. do must not end the transaction, call Write, or pass it a context that can
// end: an interrupted statement takes the whole group of writes with it.
func (d *DB) Write(ctx context.Context, do func(tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return ledger.Unavailable("wait for the writer", err)
	}
	w := &write{ctx: ctx, do: do, done: make(chan error, 1)}
	if err := d.enqueue(w); err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	if w.take() {
		return ledger.Unavailable("wait for the writer", ctx.Err())
	}
	return <-w.done // the write has begun: only its outcome tells what is stored
}

func (d *DB) enqueue(w *write) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return ledger.ErrClosed
	}
	select {
	case d.queue <- w:
		return nil
	case <-w.ctx.Done():
		return ledger.Unavailable("wait for the writer", w.ctx.Err())
	}
}

// Close makes accepted writes durable and closes the file. Further writes get [ledger.ErrClosed].
func (d *DB) Close() error { return d.close() }
