// Command enter turns itself into a container's process. Package node starts it in new mount, process, host name and
// IPC namespaces and in the pod's network namespace, with the path of a sandbox.Spec. What fails before the process
// starts is written to file descriptor 3, which is closed once it has started.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/actionproof/mediator/test/deploy/node/sandbox"
	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // what follows holds for this thread, which becomes the process
	unix.CloseOnExec(3)
	err := run()
	fmt.Fprint(os.NewFile(3, "status"), err)
	os.Exit(1)
}

func run() error {
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var s sandbox.Spec
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if s.Join {
		err = join()
	} else {
		err = build(&s)
	}
	if err != nil {
		return err
	}
	if err := become(&s); err != nil {
		return err
	}
	path, err := lookUp(&s)
	if err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, s.Args, s.Env))
}

// join enters the mount namespace of a container that runs.
func join() error {
	unix.CloseOnExec(4)
	// A mount namespace is entered by a thread that shares root and working folder with no other.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(4, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the mount namespace: %w", err)
	}
	return nil
}

const machine = "/.machine" // where the machine's root is seen while the container's is built

// build makes the container's root and moves into it.
func build(s *sandbox.Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", s.Scratch, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount scratch: %w", err)
	}
	root := filepath.Join(s.Scratch, "root")
	for _, name := range []string{"root", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(s.Scratch, name), 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", s.Root, s.Scratch, s.Scratch)
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount the image %s: %w", s.Root, err)
	}
	if err := os.MkdirAll(root+machine, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(root, root+machine); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := system(); err != nil {
		return err
	}
	for _, m := range append(s.Binds, s.Mounts...) {
		if err := bind(m); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("working folder: %w", err)
	}
	if err := unix.Unmount(machine, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root: %w", err)
	}
	if err := os.Remove(machine); err != nil {
		return err
	}
	if s.ReadOnlyRoot {
		if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
	}
	return unix.Sethostname([]byte(s.Hostname))
}

// system mounts what each container has besides its image and volumes.
func system() error {
	for _, m := range []struct {
		target, kind string
		flags        uintptr
		data         string
	}{
		{"/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY, ""},
		{"/dev", "tmpfs", unix.MS_NOSUID, "mode=0755,size=64k"},
		{"/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777,size=64m"},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	unix.Umask(0)
	defer unix.Umask(0o022)
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	for name, target := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink("/proc/self/"+target, "/dev/"+name); err != nil {
			return err
		}
	}
	// A runtime hides what tells of, or changes, the machine.
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list"} {
		if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// bind mounts one file or folder. Links in the image are followed in the container's root, not in the machine's.
func bind(m sandbox.Mount) error {
	source := machine + m.Source
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(m.Target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(m.Target), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(m.Target, os.O_CREATE, 0o644); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(source, m.Target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil || !m.ReadOnly {
		return err
	}
	return unix.Mount("", m.Target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

// lookUp finds the command in the container's PATH.
func lookUp(s *sandbox.Spec) (string, error) {
	if err := os.Chdir(s.Dir); err != nil {
		return "", err
	}
	name := s.Args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, e := range s.Env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}
