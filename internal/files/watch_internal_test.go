package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
)

// TestWatch changes what a path names, in each way in which files are delivered or moved.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lay    func(dir string) error // before the file at dir/a/b/file is watched
		change func(dir string) error
	}{
		"written": {change: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("new"), 0o600)
		}},
		"replaced": {change: func(dir string) error {
			return Replace(filepath.Join(dir, "a/b/file"), []byte("new"), 0o600)
		}},
		"removed": {change: func(dir string) error { return os.Remove(filepath.Join(dir, "a/b/file")) }},
		"made": {
			lay:    func(dir string) error { return os.RemoveAll(filepath.Join(dir, "a")) },
			change: func(dir string) error { return os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "a")) },
		},
		"mounted by Kubernetes": { // file -> ..data/file, and ..data -> a folder
			lay: func(dir string) error {
				in := func(name string) string { return filepath.Join(dir, "a/b", name) }
				return errors.Join(os.Mkdir(in("..1"), 0o700), os.Rename(in("file"), in("..1/file")),
					os.Symlink("..1", in("..data")), os.Symlink("..data/file", in("file")))
			},
			change: func(dir string) error {
				in := func(name string) string { return filepath.Join(dir, "a/b", name) }
				return errors.Join(os.Symlink(filepath.Join(dir, "other/b"), in("..next")),
					os.Rename(in("..next"), in("..data")))
			},
		},
		"behind a link": {
			lay: func(dir string) error {
				return errors.Join(os.RemoveAll(filepath.Join(dir, "a")),
					os.Symlink("other/../other", filepath.Join(dir, "a")))
			},
			change: func(dir string) error {
				return Replace(filepath.Join(dir, "other/b/file"), []byte("new"), 0o600)
			},
		},
		"in a moved folder": {change: func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "gone")),
				os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "a")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			check.Must(t, err)
			for folder, content := range map[string]string{"a/b": "old", "other/b": "other"} {
				check.Must(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
				check.Must(t, os.WriteFile(filepath.Join(dir, folder, "file"), []byte(content), 0o600))
			}
			if c.lay != nil {
				check.Must(t, c.lay(dir))
			}
			path := filepath.Join(dir, "a/b/file")
			before, _ := os.ReadFile(path)
			w, err := watch([]string{filepath.Join(dir, "absent"), path})
			check.Must(t, err)
			check.Must(t, os.WriteFile(filepath.Join(dir, "unrelated"), nil, 0o600))
			check.Must(t, c.change(dir))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			w.wait(ctx, time.Hour)
			if after, _ := os.ReadFile(path); ctx.Err() != nil || string(after) == string(before) {
				t.Errorf("the change was not seen: %v", ctx.Err())
			}
		})
	}
}

// TestUnrelated: other files of a watched folder wake no waiter.
func TestUnrelated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := watch([]string{filepath.Join(dir, "file")})
	check.Must(t, err)
	defer w.events.Close()
	check.Must(t, os.WriteFile(filepath.Join(dir, "file.log"), nil, 0o600))
	some := make([]byte, 4096)
	n, err := w.events.Read(some)
	check.Must(t, err)
	if w.counts(some[:n]) {
		t.Error("a change of another file counts")
	}
}

// TestUnwatched: where the kernel does not report every change, files are read each second.
func TestUnwatched(t *testing.T) {
	t.Parallel()
	if _, err := watch([]string{"/proc/self/status"}); err == nil {
		t.Error("a file system that is not known to report changes is watched")
	}
	reads := 0
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	Follow(ctx, []string{"/proc/self/status"}, func() error {
		if reads++; reads == 3 {
			cancel()
		}
		return nil
	}, func(error) { t.Error("no read has failed") })
	if reads != 3 {
		t.Errorf("%d reads in five minutes", reads)
	}
}

// TestFollowErrors: a read that fails is repeated soon, and each new error is reported once.
func TestFollowErrors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	check.Must(t, os.WriteFile(path, nil, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	results := []error{errors.New("one"), errors.New("one"), errors.New("two"), nil, nil}
	reads := 0
	var told []string
	Follow(ctx, []string{path}, func() error {
		if reads++; reads == len(results) {
			cancel()
		}
		if reads == len(results)-1 {
			check.Must(t, os.WriteFile(path, []byte("new"), 0o600)) // by itself it would be read again after a minute
		}
		return results[reads-1]
	}, func(err error) { told = append(told, err.Error()) })
	if reads != len(results) || !slices.Equal(told, []string{"one", "two"}) {
		t.Errorf("%d reads, told %q", reads, told)
	}
}
