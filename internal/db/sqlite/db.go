// Package sqlite keeps a [db.DB] in an SQLite file of one process.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

const (
	// maxWaiting bounds the queued writes. One more waits for a place.
	maxWaiting = 4096
	maxReaders = 8
)

// File is an SQLite file with one writer that commits in groups: all waiting writes share a transaction and its one
// fsync. A write that returned nil survives a crash of process and machine. A File is safe for concurrent
// use. Only one at a time may use a file.
type File struct {
	path  string
	file  os.FileInfo // as opened
	write *sql.DB     // one connection, which only the writer uses after opening
	read  *sql.DB
	queue chan *write
	done  chan struct{} // closed when the writer has ended
	close func() error

	// Prepared once: each write needs them.
	savepoint, release, undo *sql.Stmt

	mu     sync.RWMutex // read-locked while queueing, so that nothing is queued after closed is set
	closed bool
}

// Open opens the schema in the file at path as [OpenFile] does, and prepares its frequent statements.
func Open(ctx context.Context, path string, s db.Schema) (*db.DB, error) {
	if _, err := os.Stat(path); err != nil && s.Existing {
		return nil, err
	}
	f, err := OpenFile(ctx, path, s)
	if err != nil {
		return nil, err
	}
	prepared := make(map[string]*sql.Stmt, len(s.Frequent))
	for _, query := range s.Frequent {
		if prepared[query], err = f.write.PrepareContext(ctx, query); err != nil {
			return nil, errors.Join(ledger.Unavailable("prepare", err), f.Close())
		}
	}
	write := func(ctx context.Context, do func(context.Context, db.Transaction) error) error {
		// A cancelled statement would take the other writes of its group with it.
		return f.Write(ctx, func(t *sql.Tx) error {
			return do(context.WithoutCancel(ctx), db.Transaction{Tx: t, Prepared: prepared})
		})
	}
	return db.New(s, db.Backend{Read: f.read, Write: write, Close: f.Close}), nil
}

// OpenFile opens the file at path, or creates it with mode 0600 and the schema. It refuses a file that is open in
// another File, has another schema, is not writable, or refuses the durability settings. Beside the file lie path-wal,
// path-shm and path.lock.
func OpenFile(ctx context.Context, path string, s db.Schema) (*File, error) {
	d := &File{path: path, queue: make(chan *write, maxWaiting), done: make(chan struct{})}
	if err := d.open(ctx, s); err != nil {
		return nil, ledger.Unavailable("open "+filepath.Base(path), err)
	}
	go d.run()
	return d, nil
}

// open opens all parts of the File or none. It sets d.close, which closes them in reverse.
func (d *File) open(ctx context.Context, s db.Schema) (err error) {
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
	if err := apply(ctx, d.write, s); err != nil {
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

// Read returns a pool that sees committed data and refuses writes.
func (d *File) Read() *sql.DB { return d.read }

// Write runs do in a transaction and returns nil once it is durable.
//
// If do fails or panics, or ctx ends before do begins, nothing is stored. After any other error, which has the code
// ledger_unavailable, the outcome is unknown: treat it as stored.
//
// Once do begins, ctx no longer matters. do must not end the transaction, call Write, or pass the transaction a context
// that can end: an interrupted statement undoes the whole group of writes.
func (d *File) Write(ctx context.Context, do func(tx *sql.Tx) error) error {
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
	return <-w.done // it has begun: only its outcome tells what is stored
}

func (d *File) enqueue(w *write) error {
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

// Close makes accepted writes durable and closes the file. Later writes get [ledger.ErrClosed].
func (d *File) Close() error { return d.close() }
