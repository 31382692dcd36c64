package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Writable refuses a file, or its folder, that this process may not write. SQLite needs both, for its WAL, and its own
// error says only that the database is read-only.
func Writable(path string) error {
	for _, name := range []string{filepath.Dir(path), path} {
		err := unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s cannot be written by user %d, who runs this process (%w): make that user its owner, with "+
				"write permission, on a file system that is mounted for writing", name, os.Geteuid(), err)
		}
	}
	return nil
}

// ErrInUse is the error of Lock if another process has the lock.
var ErrInUse = errors.New("it is in use by another process")

// Lock makes this process the only writer of the file at path: a second one would take the posts in flight of the first
// for those of a crash. The kernel releases the lock when the process ends. The lock file stays: if it were removed,
// two processes could each lock a file of that name.
// It fails with [ErrInUse] if another process has the lock.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
