package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hidden returns the folders that the place replaces by its own, [Temp] last: services have their sockets there, and
// users share files.
func hidden() []string {
	dirs := []string{Temp, "/dev", "/run", "/var/tmp"}
	if at, err := filepath.EvalSymlinks("/var/run"); err == nil && !slices.ContainsFunc(dirs, func(d string) bool {
		return below(at, d)
	}) {
		dirs = append(dirs, at)
	}
	return append(dirs[1:], Temp)
}

func isHidden(path string) bool {
	return slices.ContainsFunc(hidden(), func(dir string) bool { return path != dir && below(path, dir) })
}

// isKernels reports whether a path belongs to the kernel's view of the machine. The place has its own.
func isKernels(path string) bool {
	return below(path, "/proc") || below(path, "/dev") && !below(path, "/dev/shm")
}

func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

var devices = []string{"/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"}

// kept is a file or folder that the place keeps, perhaps below a hidden folder. It is opened before that folder is
// hidden, with the agent's rights: a bind mount then shows nothing that the agent's user could not open.
type kept struct {
	path string
	file *os.File
	dir  bool
}

// resolve keeps the file or folder to which the links at a path lead.
func resolve(path string) (kept, error) {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return kept{}, err
	}
	return keep(at, at)
}

// keep opens a name, which can be relative to this process's folder, and keeps it at a path.
func keep(name, at string) (kept, error) {
	info, err := os.Stat(name)
	if err != nil {
		return kept{}, err
	}
	if info.IsDir() {
		name += "/." // exists only for a user who may enter the folder
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return kept{}, &os.PathError{Op: "open", Path: at, Err: err}
	}
	return kept{at, os.NewFile(uintptr(fd), at), info.IsDir()}, nil
}

// closedAbove returns the first folder above dir that the agent's user may not enter, or an empty text. The place shows
// only dir of it.
func closedAbove(dir string) string {
	for i, c := range dir {
		if c == '/' && i > 0 && errors.Is(unix.Faccessat(unix.AT_FDCWD, dir[:i], unix.X_OK, unix.AT_EACCESS),
			unix.EACCES) {
			return dir[:i]
		}
	}
	return ""
}

// mount binds a kept file or folder to its path, in a folder that is now empty.
func (k kept) mount() error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o755); err != nil {
		return err
	}
	var err error
	if k.dir {
		err = os.MkdirAll(k.path, 0o755)
	} else {
		err = os.WriteFile(k.path, nil, 0o644) //nolint:gosec // empty
	}
	if err != nil {
		return err
	}
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", k.file.Fd()), k.path, "", unix.MS_BIND|unix.MS_REC, "")
}

const bare = unix.MS_NOSUID | unix.MS_NODEV

// hide gives the place its own /proc, its own hidden folders and its own closed one, if there is one. It mounts the
// kept paths there, and covers those of elsewhere.
func hide(keep []kept, again []string, closed string, tempMiB int) error {
	dirs := hidden()
	if closed != "" && !isHidden(closed) {
		dirs = append([]string{closed}, dirs...)
	}
	bound := slices.DeleteFunc(slices.Clone(keep), func(k kept) bool {
		return !slices.ContainsFunc(dirs, func(dir string) bool { return k.path != dir && below(k.path, dir) })
	})
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("the mounts cannot be made private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", bare|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc cannot be mounted, because parts of this container's own /proc are hidden: %w", err)
	}
	if err := private(dirs, tempMiB); err != nil {
		return err
	}
	if err := terminals(); err != nil {
		return err
	}
	for _, k := range bound {
		if err := k.mount(); err != nil {
			return fmt.Errorf("%s cannot be mounted: %w", k.path, err)
		}
	}
	return cover(again, bound)
}

// private mounts an empty folder over each of dirs. All belong to one file system in memory, which bounds their
// size. It is mounted at Temp, which its own folder covers last.
func private(dirs []string, tempMiB int) error {
	const pages = 256 // of 1 MiB; a file that is not empty takes one at least
	if err := unix.Mount("tmpfs", Temp, "tmpfs", bare,
		fmt.Sprintf("mode=0755,size=%dm,nr_inodes=%d", tempMiB, tempMiB*pages)); err != nil {
		return fmt.Errorf("%s cannot be hidden: %w", Temp, err)
	}
	for i, dir := range dirs {
		mode := os.FileMode(0o755)
		if strings.HasSuffix(dir, "/tmp") {
			mode = 0o777 | os.ModeSticky
		}
		empty := fmt.Sprintf("%s/%d", Temp, i)
		if err := errors.Join(os.Mkdir(empty, 0o755), os.Chmod(empty, mode)); err != nil {
			return err
		}
		if err := unix.Mount(empty, dir, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s cannot be hidden: %w", dir, err)
		}
	}
	return nil
}

func terminals() error {
	if err := os.Mkdir("/dev/pts", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620,max=256"); err != nil {
		return fmt.Errorf("/dev/pts cannot be mounted: %w", err)
	}
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	return errors.Join(os.Mkdir("/dev/shm", 0o777), os.Chmod("/dev/shm", 0o777|os.ModeSticky))
}
