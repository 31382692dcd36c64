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
			return fmt.Errorf("%s cannot be written by user %d, who runs this process (%w): make that user its owner, "+
				"with write permission, on a file system that is mounted for writing", name, os.Geteuid(), err)
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
func Lock(path string) (*os.File, error) { return lock(path, 0o600, syscall.LOCK_NB) }

// WaitLock is like Lock, but waits, and all users who may write the folder share the lock. No other user may open the
// lock file, and so hold the lock.
func WaitLock(path string) (*os.File, error) {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	mode := 0o600 | info.Mode().Perm()&0o020<<1 | info.Mode().Perm()&0o020
	f, err := lock(path, mode, 0)
	if err == nil {
		of := info.Sys().(*syscall.Stat_t)
		_ = errors.Join(f.Chown(int(of.Uid), int(of.Gid)), f.Chmod(mode)) // fails if another user has made the file
	}
	return f, err
}

func lock(path string, mode os.FileMode, how int) (*os.File, error) {
	// Root follows no link of another user who may write the folder: WaitLock gives them the file.
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
