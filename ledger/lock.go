package ledger

import (
	"errors"
	"os"
	"syscall"
)

// lock makes this DB the only one that writes the file at path: a second process would take the first one's posts in flight for
// those of a crash. The kernel releases the lock when the process ends, however it ends. The lock lies on a file beside it, which
// stays: were it removed, two processes could each hold a lock on a file of that name.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("it is in use by another process")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
