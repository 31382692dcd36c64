package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// shows are the types of file systems that show the machine's processes, terminals and devices.
var shows = []string{"proc", "devpts", "devtmpfs", "mqueue"}

// elsewhere returns other paths with the things that the place hides, as in a chroot: mounts of file systems that show
// the machine, and of the hidden folders.
func elsewhere() ([]string, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for _, m := range mounts {
		m.MountPoint, m.Root = unescape.Replace(m.MountPoint), unescape.Replace(m.Root)
	}
	var out []string
	for _, m := range mounts {
		if slices.Contains(shows, m.FSType) {
			out = append(out, m.MountPoint)
		}
	}
	for _, dir := range hidden() {
		of := mountOf(mounts, dir)
		if of == nil {
			continue
		}
		root := filepath.Join(of.Root, strings.TrimPrefix(dir, of.MountPoint))
		for _, m := range mounts {
			switch {
			case m.MajorMinorVer != of.MajorMinorVer:
			case below(m.Root, root):
				out = append(out, m.MountPoint)
			case below(root, m.Root):
				out = append(out, filepath.Join(m.MountPoint, strings.TrimPrefix(root, m.Root)))
			}
		}
	}
	return slices.DeleteFunc(out, func(path string) bool {
		return below(path, "/proc") || slices.Contains(hidden(), path)
	}), nil
}

func mountOf(mounts []*procfs.MountInfo, dir string) (of *procfs.MountInfo) {
	for _, m := range mounts { // of two at one path the later one covers the other
		if below(dir, m.MountPoint) && (of == nil || len(m.MountPoint) >= len(of.MountPoint)) {
			of = m
		}
	}
	return of
}

// cover hides the paths of elsewhere behind an empty folder or /dev/null. Paths below the hidden folders are hidden
// already, unless they are in a kept folder.
func cover(paths []string, bound []kept) error {
	empty, err := os.MkdirTemp(Temp, "empty-")
	if err != nil {
		return err
	}
	defer os.Remove(empty) // so that nothing can be written into it
	if err := os.Chmod(empty, 0o755); err != nil {
		return err
	}
	for _, path := range paths {
		// the agent has it: in a rootless container each device is a mount of its own
		if slices.Contains(devices, path) {
			continue
		}
		if isHidden(path) && !slices.ContainsFunc(bound, func(k kept) bool { return below(path, k.path) }) {
			continue
		}
		with := empty
		info, err := os.Lstat(path)
		if err == nil && !info.IsDir() {
			with = os.DevNull
		}
		if err == nil {
			err = unix.Mount(with, path, "", unix.MS_BIND, "")
		}
		// The agent does not reach a path that this process cannot reach.
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("%s cannot be hidden: %w", path, err)
		}
	}
	return nil
}
