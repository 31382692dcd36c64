package isolate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// copies holds what covers files of the machine.
const copies = "/run/agent/etc"

// makeCopies makes room for the copies, which do not count for the agent.
func makeCopies() error {
	if err := os.MkdirAll(copies, 0o755); err != nil {
		return err
	}
	return cannotCover(copies, unix.Mount("tmpfs", copies, "tmpfs", bare, "mode=0755,size=64m,nr_inodes=16k"))
}

// ownResolverFile makes 127.0.0.1 the place's resolver, without the machine's search domains: the resolver knows every
// name, so that the first of a list would be taken.
func ownResolverFile() error {
	const name = "/etc/resolv.conf"
	at, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) { // missing, or a link into a hidden folder
		if at, err = os.Readlink(name); err != nil {
			return nil // 127.0.0.1 is the default
		}
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(name), at)
		}
		if !isHidden(at) {
			return nil
		}
		err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644)) //nolint:gosec // public
	}
	if err != nil {
		return err
	}
	return coverFile(at, []byte("nameserver 127.0.0.1\noptions ndots:0\n"))
}

// coverFile mounts a file with this content over another.
func coverFile(name string, content []byte) error {
	own := filepath.Join(copies, strings.ReplaceAll(name, "/", "-"))
	if err := os.WriteFile(own, content, 0o644); err != nil { //nolint:gosec // public
		return err
	}
	return cannotCover(name, unix.Mount(own, name, "", unix.MS_BIND, ""))
}

// coverFolder mounts a copy over a folder of public files and links, if it exists.
func coverFolder(name, own string) error {
	from, err := os.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // the agent could not read it either
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Mkdir(own, 0o755); err != nil {
		return err
	}
	to, err := os.OpenRoot(own)
	if err != nil {
		return err
	}
	defer to.Close()
	err = fs.WalkDir(from.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		switch entry.Type() {
		case fs.ModeDir:
			return to.MkdirAll(at, 0o755)
		case fs.ModeSymlink:
			link, err := from.Readlink(at)
			if err != nil {
				return err
			}
			return to.Symlink(link, at)
		case 0:
			raw, err := from.ReadFile(at)
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			if err != nil {
				return err
			}
			return to.WriteFile(at, raw, 0o644)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return cannotCover(name, unix.Mount(own, name, "", unix.MS_BIND, ""))
}

func cannotCover(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s cannot be covered: %w", name, err)
	}
	return nil
}
