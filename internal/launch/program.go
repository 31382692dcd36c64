package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// candidates returns the absolute paths of a command: the given path, or every program of that name in PATH. The agent
// gets the first that its user can execute. Relative folders of PATH depend on the current folder, and are skipped.
func candidates(name string) ([]string, error) {
	if strings.Contains(name, "/") {
		at, err := filepath.Abs(name)
		if err == nil {
			err = isProgram(at)
		}
		return []string{at}, err
	}
	var found []string
	hint := ""
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		at := filepath.Join(dir, name)
		switch err := isProgram(at); {
		case err != nil:
		case !filepath.IsAbs(dir):
			hint = fmt.Sprintf("; %s is there, but relative folders of PATH are not searched: give its path", at)
		default:
			found = append(found, at)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w%s", &exec.Error{Name: name, Err: exec.ErrNotFound}, hint)
	}
	return found, nil
}

// isProgram returns an error if a file is missing or not executable.
func isProgram(path string) error {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = &os.PathError{Op: "execute", Path: path, Err: unix.EACCES}
	}
	return err
}

// executable returns the first program that a user can execute; -1 is the user of this process.
func executable(programs []string, uid int) (string, error) {
	var first error
	for _, name := range programs {
		err := as(uid, func() error { return unix.Faccessat(unix.AT_FDCWD, name, unix.X_OK, unix.AT_EACCESS) })
		if err == nil {
			return name, nil
		}
		if first == nil {
			first = fmt.Errorf("the agent's user cannot execute %s: %w", name, err)
		}
	}
	return "", first
}

// canEnter reports whether a user can enter a folder by its path.
func canEnter(dir string, uid int) bool {
	return as(uid, func() error {
		fd, err := unix.Open(dir+"/.", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}) == nil
}

// as calls try with a user's rights to files, and those of the group of the same number; -1 keeps user and groups. It
// uses a thread of its own, which then ends.
func as(uid int, try func() error) error {
	if uid < 0 {
		return try()
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: Go ends the thread with the goroutine
		_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
		err := errors.Join(unix.Setfsgid(uid), unix.Setfsuid(uid))
		switch {
		case errno != 0:
			err = errno
		case err == nil:
			err = try()
		}
		result <- err
	}()
	return <-result
}
