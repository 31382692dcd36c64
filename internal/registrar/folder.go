package registrar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/actionproof/mediator/internal/files"
)

// Folder is the [Store] of a registrar without replicas.
type Folder struct {
	dir  string
	lock *os.File

	edits sync.Mutex // held during an edit
}

var _ Store = (*Folder)(nil)

// OpenFolder opens the store in a folder. It fails while another process has it open.
func OpenFolder(dir string) (*Folder, error) {
	lock, err := files.Lock(filepath.Join(dir, "registrar"))
	if err != nil {
		return nil, fmt.Errorf("the state in %s: %w", dir, err)
	}
	return &Folder{dir: dir, lock: lock}, nil
}

// Path returns the path of a file.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, name) }

func (f *Folder) Watch(ctx context.Context, changed func(), failed func(error)) {
	files.Follow(ctx, f.paths(), func() error { changed(); return nil }, failed)
}

// Lead implements [Store]. A registrar without replicas always leads.
func (f *Folder) Lead(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// paths returns the paths of the files that decide the Version.
func (f *Folder) paths() []string { return []string{f.Path(BundleFile), f.Path(deploymentsFile)} }

// Close lets another process open the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// Edit implements [Store]. The operator's commands may change the bundle too: they lock it.
func (f *Folder) Edit(_ context.Context, do func(dir string) error) error {
	f.edits.Lock()
	defer f.edits.Unlock()
	return do(f.dir)
}

func (f *Folder) Read(_ context.Context, name string) ([]byte, error) {
	return files.Read(f.Path(name))
}

// Version implements [Store]. The operator's commands may change the files too.
func (f *Folder) Version(context.Context) (version string, err error) {
	for _, path := range f.paths() {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		version += fmt.Sprint(path, info.Size(), info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Ino)
	}
	return version, nil
}
