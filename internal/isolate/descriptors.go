package isolate

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseOnExec makes every descriptor of this process but 0, 1 and 2 close when it executes a program, including those
// that the process inherited.
func CloseOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		// EBADF: ReadDir has closed its own descriptor.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil &&
			!errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return nil
}
