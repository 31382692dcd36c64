package devstack

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

// Hold makes this process the only one that runs a stack in dir (listen_failed), until it calls release or ends. A
// second stack would put away the roots, CA and logs of the first.
func Hold(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	f, err := files.Lock(filepath.Join(dir, "dev")) // dev.lock, which also holds the ID of its process
	if errors.Is(err, files.ErrInUse) {
		return nil, refusal.New("listen_failed",
			"%s runs in %s already: end it first, or give this one a folder of its own with --dir", holder(dir), dir)
	}
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// holder names the process that runs in dir, if it has written its ID already.
func holder(dir string) string {
	raw, err := files.ReadUpTo(filepath.Join(dir, "dev.lock"), 32)
	pid, bad := strconv.Atoi(string(raw))
	if err != nil || bad != nil || pid <= 0 {
		return "another process"
	}
	return "process " + strconv.Itoa(pid)
}
