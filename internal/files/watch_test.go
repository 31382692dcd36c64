package files_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/test/check"
)

// TestWatch changes a file in each way in which one is delivered. The period is too long to see any of them.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"written":  func(path string) error { return os.WriteFile(path, []byte("new"), 0o600) },
		"replaced": func(path string) error { return files.Replace(path, []byte("new"), 0o600) },
		"linked": func(path string) error { // as Kubernetes mounts a Secret: file -> ..data/file, and ..data -> a folder
			dir := filepath.Dir(path)
			if err := os.Symlink("after", filepath.Join(dir, "..next")); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			for folder, content := range map[string]string{"before": "old", "after": "new"} {
				check.Must(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
				check.Must(t, os.WriteFile(filepath.Join(dir, folder, "file"), []byte(content), 0o600))
			}
			check.Must(t, os.Symlink("before", filepath.Join(dir, "..data")))
			if name == "linked" {
				check.Must(t, os.Symlink("..data/file", path))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			changed := false
			for range files.Watch(ctx, path, time.Hour) {
				if !changed {
					check.Must(t, change(path))
					changed = true
					continue
				}
				if raw, _ := os.ReadFile(path); string(raw) == "new" {
					return
				}
			}
			t.Error("the change was not seen")
		})
	}
}
