package devstack

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/actionproof/mediator/internal/refusal"
)

// holdFile is locked while a stack runs in its folder. It holds the ID of the process that locked it, and stays.
const holdFile = "dev.lock"

// Hold makes this process the only one that runs a stack in dir, until it calls release or ends. A second stack would
// put away the roots, CA and logs of the first, so it is refused: listen_failed.
func Hold(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, holdFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = refusal.New("listen_failed",
			"%s runs in %s already: end it first, or give this one a folder of its own with --dir", holder(f), dir)
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// holder names the process that has locked a file. It may not have written its ID yet.
func holder(f *os.File) string {
	raw, err := io.ReadAll(io.LimitReader(f, 32))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || bad != nil || pid <= 0 {
		return "another process"
	}
	return "process " + strconv.Itoa(pid)
}
