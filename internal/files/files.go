// Package files reads and writes the mediator's own files. Every read has a bound.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Bounds on files, in bytes.
const (
	MaxInput = 16 << 20 // a file that is the argument of a command
	maxSetup = 10 << 20 // trust, keys and the like; the largest trust bundle is smaller
)

// Read reads a file of the mediator's own setup, of at most maxSetup bytes.
func Read(path string) ([]byte, error) { return ReadUpTo(path, maxSetup) }

// pipeTime bounds the reading of a pipe.
const pipeTime = 30 * time.Second

// ReadUpTo reads a file of at most limit bytes. It refuses a larger one. A pipe without a writer is empty.
func ReadUpTo(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(pipeTime)) // a plain file has none
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > limit {
		return nil, errLarge(path, limit) // before reading it
	}
	return ReadAll(f, path, limit)
}

// ReadAll reads r to its end. It refuses more than limit bytes. The error calls r name.
func ReadAll(r io.Reader, name string, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = errLarge(name, limit)
	}
	return raw, err
}

// ErrLarge is in the error about a file larger than its limit.
var ErrLarge = errors.New("larger")

func errLarge(name string, limit int64) error {
	return fmt.Errorf("%s is %w than the %d bytes that are read", name, ErrLarge, limit)
}

// ReadSecret reads a secret of at least minimum bytes. It removes one line end from the end of the file.
func ReadSecret(path string, minimum int) (string, error) {
	raw, err := Read(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if len(s) < minimum {
		return "", fmt.Errorf("the secret in %s has fewer than %d bytes", path, minimum)
	}
	return s, nil
}

// WriteNew writes content and a line end into a new file. It refuses to overwrite a file (fs.ErrExist).
func WriteNew(path string, content []byte, mode os.FileMode) error {
	err := create(path, append(content, '\n'), mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: move it away first", err)
	}
	return err
}

// WriteAbsent writes a file that only its owner can read. If the file exists, WriteAbsent leaves it as it is.
func WriteAbsent(path string, content []byte) error {
	err := create(path, content, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// create writes a file that must not exist. It removes a file that it could not complete.
func create(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return SyncFolder(path)
}

// SyncFolder makes the name of a new file durable: a power cut could otherwise take it away again.
func SyncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) { // some file systems cannot
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// Replace replaces a file atomically and durably.
func Replace(path string, content []byte, mode os.FileMode) error {
	return ReplaceWith(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// ReplaceWith is Replace with the content that write writes. If write fails, the file stays as it was.
func ReplaceWith(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(path)
}

// Rewrite is [Replace] for a file that keeps its mode and, if root rewrites it, its owner.
func Rewrite(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	was, ok := info.Sys().(*syscall.Stat_t)
	return ReplaceWith(path, info.Mode().Perm(), func(w io.Writer) error {
		if f, isFile := w.(*os.File); ok && isFile && os.Geteuid() == 0 {
			if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
				return err
			}
		}
		_, err := w.Write(content)
		return err
	})
}

// Folders returns the folders of a file: that of its name and, behind symbolic links, that of its target. A file that
// is delivered again is another file in the same folder. For a folder, Folders returns the folder itself.
func Folders(name string) []string {
	var out []string
	at, err := filepath.EvalSymlinks(name)
	if err != nil {
		at = name
	}
	for _, p := range []string{name, at} {
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			p = filepath.Dir(p)
		}
		out = append(out, p)
	}
	return slices.Compact(out)
}
