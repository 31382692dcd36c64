package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
)

// maxGroup bounds the writes that share one transaction.
const maxGroup = 256

type write struct {
	ctx   context.Context
	do    func(tx *sql.Tx) error
	done  chan error  // buffered, so that the writer never waits for a caller
	taken atomic.Bool // by the writer, to run it, or by its caller, to give up
}

// take claims the write. It returns true only once: to the writer or to the caller.
func (w *write) take() bool { return !w.taken.Swap(true) }

func (d *File) run() {
	defer close(d.done)
	for first := range d.queue {
		for group := d.gather(first); len(group) > 0; {
			group = d.commit(group)
		}
	}
}

func (d *File) gather(first *write) []*write {
	group := []*write{first}
	for len(group) < maxGroup {
		select {
		case w, ok := <-d.queue:
			if !ok {
				return group
			}
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

// commit runs a group of writes in one transaction, each with a savepoint, so that a failing one does not affect the
// others. After some failures, such as a full disk, SQLite undoes the whole transaction
// (https://sqlite.org/lang_transaction.html section 3.3). Then the writes that have run get an error, and commit
// returns the others for another transaction.
func (d *File) commit(group []*write) (rest []*write) {
	tx, err := d.write.Begin()
	if err != nil {
		answer(group, ledger.Unavailable("begin", err))
		return nil
	}
	failpoint.Reach("ledger begun")
	points := savepoints{tx.Stmt(d.savepoint), tx.Stmt(d.release), tx.Stmt(d.undo)}
	ran := make([]*write, 0, len(group))
	for i, w := range group {
		if w.ctx.Err() != nil || !w.take() {
			w.done <- ledger.Unavailable("wait for the writer", w.ctx.Err())
			continue
		}
		err, ended := points.run(tx, w.do)
		if err == nil {
			ran = append(ran, w)
			continue
		}
		w.done <- err
		if ended != nil {
			_ = tx.Rollback() // SQLite may have rolled back
			answer(ran, ledger.Unavailable("commit", ended))
			return group[i+1:]
		}
	}
	answer(ran, d.conclude(tx))
	return nil
}

func (d *File) conclude(tx *sql.Tx) error {
	if err := d.inPlace(); err != nil {
		_ = tx.Rollback()
		return ledger.Unavailable("commit", err)
	}
	failpoint.Reach("ledger written")
	if err := tx.Commit(); err != nil { // the driver has rolled back
		return ledger.Unavailable("commit", err)
	}
	failpoint.Reach("ledger committed")
	return nil
}

// inPlace refuses to commit to a file that was removed or replaced: SQLite would write on, and a restart would not find
// the writes.
func (d *File) inPlace() error {
	now, err := os.Stat(d.path)
	if err == nil && !os.SameFile(now, d.file) {
		return fmt.Errorf("%s has been replaced while it was open: put back the file that was there, or "+
			"restart this process", filepath.Base(d.path))
	}
	if err == nil {
		_, err = os.Stat(d.path + "-wal")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s or its WAL has been removed while it was open: put it back, or restart this process",
			filepath.Base(d.path))
	}
	return err
}

func answer(group []*write, err error) {
	for _, w := range group {
		w.done <- err
	}
}

type savepoints struct{ set, release, undo *sql.Stmt }

// ended is set if the whole transaction failed.
func (s savepoints) run(tx *sql.Tx, do func(*sql.Tx) error) (err, ended error) {
	if _, err := s.set.Exec(); err != nil {
		return ledger.Unavailable("savepoint", err), err
	}
	if err = guarded(tx, do); err != nil {
		if _, undo := s.undo.Exec(); undo != nil {
			// Not %w: the group's other writes must not seem refused as this one was.
			return err, fmt.Errorf("another write ended the transaction: %v", err)
		}
	}
	if _, ended = s.release.Exec(); ended != nil {
		return errors.Join(err, ledger.Unavailable("savepoint", ended)), ended
	}
	return err, nil
}

// guarded turns a panic into an error: one caller's fault must not stop the writer for all.
func guarded(tx *sql.Tx, do func(*sql.Tx) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = ledger.Unavailable("write", fmt.Errorf("panic: %v", v))
		}
	}()
	return do(tx)
}
