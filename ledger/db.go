package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/failpoint"
)

const (
	// maxQueue bounds the writes that wait for the writer; a further one waits for a place.
	maxQueue = 4096
	// maxBatch bounds the writes that share one transaction, and those in it that nobody waits for.
	maxBatch = 256
	// linger is how long a write that nobody waits for waits for one that somebody waits for, to share its transaction.
	linger = 5 * time.Millisecond
	// maxReaders bounds the connections of the reading pool.
	maxReaders = 8
)

// DB is an SQLite file with one writer that commits in groups: every write that waits when a transaction begins shares its one
// fsync. A write that returned nil survives a crash of the process and of the machine. It is safe for concurrent use, and the
// file belongs to one DB at a time.
type DB struct {
	path  string
	wal   string  // the path of its WAL
	write *sql.DB // one connection; after opening only the goroutine run uses it
	read  *sql.DB
	queue chan *pending
	later chan *pending // nobody waits for these
	done  chan struct{} // closed when run has ended
	close func() error
	file  syscall.Stat_t // of the file that was opened

	// Prepared once: each write needs them.
	savepoint, release, undo *sql.Stmt

	mu     sync.RWMutex // held for reading while queueing, so that nothing is queued once closed is set
	closed bool
}

// pending is one write that waits for its transaction.
type pending struct {
	ctx    context.Context
	do     func(tx *sql.Tx) error
	answer func(error) // never waits
	taken  atomic.Bool // by the writer, to run it, or by its caller, to leave
	begun  bool        // the writer has taken it

	insert *Insert // where do inserts a row that others of its kind can be inserted with, and that row
	row    []any
}

// take reports whether the write is the taker's now. Only one of the writer and the caller gets true.
func (p *pending) take() bool { return !p.taken.Swap(true) }

// begin reports whether the write is to be run, perhaps once more; if not, it has its answer.
func (p *pending) begin() bool {
	if p.begun {
		return true
	}
	if p.ctx.Err() != nil || !p.take() {
		p.answer(Unavailable("wait for the writer", p.ctx.Err()))
		return false
	}
	p.begun = true
	return true
}

// OpenDB opens or creates the file at path (mode 0600; its folder must exist) and applies the migrations that it lacks, each a
// list of statements; those that have been released never change. It refuses a file that another DB has open, that a newer
// program has written, that cannot be written, or on which SQLite does not take the settings that durability rests on. The error
// has the code ledger_unavailable. Beside the file lie path-wal, path-shm and path.lock.
func OpenDB(ctx context.Context, path string, migrations []string) (*DB, error) {
	d := &DB{path: path, wal: path + "-wal", queue: make(chan *pending, maxQueue), later: make(chan *pending, maxQueue), done: make(chan struct{})}
	if err := d.open(ctx, migrations); err != nil {
		return nil, Unavailable("open "+filepath.Base(path), err)
	}
	go d.run()
	return d, nil
}

// open opens what the DB is made of, or nothing. What it opened is closed by d.close, last opened first.
func (d *DB) open(ctx context.Context, migrations []string) (err error) {
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

	held, err := lock(d.path)
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
	if err := migrate(ctx, d.write, migrations); err != nil {
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
	if err := syscall.Stat(d.path, &d.file); err != nil {
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
		close(d.later)
		d.mu.Unlock()
		<-d.done
		return closeAll()
	})
	return nil
}

// Read returns a pool for reading. It sees what has been committed, and refuses to write.
func (d *DB) Read() *sql.DB { return d.read }

// Prepare prepares a statement for use in writes, as tx.Stmt gives it: parsing one costs more than most do when they run. Call it before
// the first write; it is closed with the DB.
func (d *DB) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	s, err := d.write.PrepareContext(ctx, query)
	if err != nil {
		return nil, Unavailable("prepare", err)
	}
	return s, nil
}

// Write runs do in a transaction and returns nil once it is durable.
//
// When do fails or panics, what it did is undone and Write returns its error; other writes are left alone. When ctx ends before
// do has begun, do does not run. Both are certain: nothing was stored. After any other error, which has the code
// ledger_unavailable, nobody knows: count it as stored.
//
// Once do has begun, ctx no longer matters. do may run twice: the first time is undone if anything in its group fails. do must not end
// the transaction, keep the error of a statement to itself, call Write, or pass a context that can end to the transaction: an
// interrupted statement takes the whole group with it.
func (d *DB) Write(ctx context.Context, do func(tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return Unavailable("wait for the writer", err)
	}
	errc := make(chan error, 1) // of one place: the writer never waits for a caller
	p := &pending{ctx: ctx, do: do, answer: func(err error) { errc <- err }}
	if err := d.enqueue(ctx, d.queue, p); err != nil {
		return err
	}
	select {
	case err := <-errc:
		return err
	case <-ctx.Done():
	}
	if p.take() {
		return Unavailable("wait for the writer", ctx.Err())
	}
	return <-errc // it has begun: only its outcome tells what is stored
}

// WriteLater takes a write that nobody waits for. It shares the transaction of the next write that somebody waits for, and gets one with others
// of its kind if none comes within 5 ms. stored is called once with what Write would have returned; it must not wait. An
// error means that the write was not taken.
func (d *DB) WriteLater(ctx context.Context, do func(tx *sql.Tx) error, stored func(error)) error {
	return d.enqueue(ctx, d.later, &pending{ctx: context.WithoutCancel(ctx), do: do, answer: stored})
}

func (d *DB) enqueue(ctx context.Context, queue chan<- *pending, p *pending) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return ErrClosed
	}
	select {
	case queue <- p:
		return nil
	case <-ctx.Done():
		return Unavailable("wait for the writer", ctx.Err())
	}
}

// Close makes what has been accepted durable and closes the file. Every further write gets [ErrClosed].
func (d *DB) Close() error { return d.close() }

// run is the writer.
func (d *DB) run() {
	defer close(d.done)
	for batch := d.gather(); len(batch) > 0; batch = d.gather() {
		for len(batch) > 0 {
			batch = d.commit(batch)
		}
	}
}

// gather waits for a write that somebody waits for, or for linger after one that nobody does, and returns it with what waits as well, up
// to maxBatch of either kind: they share one transaction. Once the DB is closed and nothing waits any more it returns none.
func (d *DB) gather() (batch []*pending) {
	var due <-chan time.Time
	later := d.later
	for {
		select {
		case p, ok := <-d.queue:
			if ok {
				batch = append(batch, p)
			}
		case p, ok := <-later:
			if !ok { // closed
				break
			}
			batch, due, later = append(batch, p), time.After(linger), nil // those that follow lie there until then, and wake nobody
			continue
		case <-due:
		}
		batch = waiting(batch, d.queue, maxBatch)
		return waiting(batch, d.later, len(batch)+maxBatch)
	}
}

// waiting appends what waits in a queue to a batch, until that has most.
func waiting(batch []*pending, queue <-chan *pending, most int) []*pending {
	for len(batch) < most {
		select {
		case p, ok := <-queue:
			if !ok {
				return batch
			}
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch in one transaction: at first as if none of it could fail, which is what nearly always holds. Where one does,
// all is undone and run again, each with a savepoint of its own, so that one refusal leaves the others alone. What has to be run in
// another transaction is returned.
func (d *DB) commit(batch []*pending) (rest []*pending) {
	if again := d.commitPlain(batch); len(again) > 0 {
		return d.commitApart(again)
	}
	return nil
}

// commitPlain runs a batch without savepoints. If one of it fails nothing is stored, and all of it is returned.
func (d *DB) commitPlain(batch []*pending) (again []*pending) {
	tx, err := d.write.Begin()
	if err != nil {
		answer(batch, Unavailable("begin", err))
		return nil
	}
	failpoint.Reach("ledger begun")
	ran, rows := batch[:0], insertions{}
	for i, p := range batch {
		if !p.begin() {
			continue
		}
		ran = append(ran, p)
		if !rows.take(p) && guarded(tx, p.do) != nil {
			_ = tx.Rollback() // SQLite may have done it
			return append(ran, batch[i+1:]...)
		}
	}
	if guarded(tx, rows.exec) != nil {
		_ = tx.Rollback()
		return ran
	}
	d.conclude(tx, ran)
	return nil
}

// commitApart runs each write of a batch with a savepoint. SQLite itself undoes the whole transaction after some failures (a full disk,
// https://sqlite.org/lang_transaction.html section 3.3): then those that had run learn of it, and those that had not are returned for
// another one.
func (d *DB) commitApart(batch []*pending) (rest []*pending) {
	tx, err := d.write.Begin()
	if err != nil {
		answer(batch, Unavailable("begin", err))
		return nil
	}
	failpoint.Reach("ledger begun")
	g := group{tx, tx.Stmt(d.savepoint), tx.Stmt(d.release), tx.Stmt(d.undo)}
	stored := make([]*pending, 0, len(batch))
	for i, p := range batch {
		if !p.begin() {
			continue
		}
		err, lost := g.run(p.do)
		if err == nil {
			stored = append(stored, p)
			continue
		}
		p.answer(err)
		if lost != nil {
			_ = tx.Rollback() // SQLite has done it, most likely
			answer(stored, Unavailable("commit", lost))
			return batch[i+1:]
		}
	}
	d.conclude(tx, stored)
	return nil
}

// conclude commits what has run, and answers it.
func (d *DB) conclude(tx *sql.Tx, batch []*pending) {
	err := d.intact()
	if err != nil {
		_ = tx.Rollback()
	} else {
		failpoint.Reach("ledger written")
		err = tx.Commit() // if it fails the driver has rolled back
	}
	if err != nil {
		answer(batch, Unavailable("commit", err))
		return
	}
	failpoint.Reach("ledger committed")
	answer(batch, nil)
}

// intact refuses to rest on a file that nobody would find after a restart: SQLite goes on writing to one that has been removed.
func (d *DB) intact() error {
	var now, wal syscall.Stat_t // not os.Stat: each group asks, and its answer is on the heap
	err := syscall.Stat(d.path, &now)
	if err == nil && (now.Dev != d.file.Dev || now.Ino != d.file.Ino) {
		return fmt.Errorf("%s has been replaced while it was open: restart this process", filepath.Base(d.path))
	}
	if err == nil {
		err = syscall.Stat(d.wal, &wal)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s or its WAL has been removed while it was open: put it back and restart this process", filepath.Base(d.path))
	}
	return err
}

func answer(batch []*pending, err error) {
	for _, p := range batch {
		p.answer(err)
	}
}

// group is a transaction that several writes share.
type group struct {
	tx                       *sql.Tx
	savepoint, release, undo *sql.Stmt
}

// run runs one write of the group; err is its outcome. lost is not nil when the transaction as a whole can no longer be trusted.
func (g group) run(do func(*sql.Tx) error) (err, lost error) {
	if _, err := g.savepoint.Exec(); err != nil {
		return Unavailable("savepoint", err), err
	}
	if err = guarded(g.tx, do); err != nil {
		if _, gone := g.undo.Exec(); gone != nil {
			return err, fmt.Errorf("another write ended the transaction: %v", err) // not %w: the others must not seem refused as this one was
		}
	}
	if _, lost = g.release.Exec(); lost != nil {
		return errors.Join(err, Unavailable("savepoint", lost)), lost
	}
	return err, nil
}

// guarded turns a panic into an error: one caller's fault must not end the writer for all.
func guarded(tx *sql.Tx, do func(*sql.Tx) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Unavailable("write", fmt.Errorf("panic: %v", v))
		}
	}()
	return do(tx)
}
