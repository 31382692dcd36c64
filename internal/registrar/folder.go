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
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

// Folder is the [Store] of a registrar without replicas.
type Folder struct {
	dir  string
	now  func() time.Time
	lock *os.File

	edits sync.Mutex // held during an edit

	mu     sync.Mutex           // guards nonces
	nonces map[string]time.Time // until when each counts
}

var _ Store = (*Folder)(nil)

// OpenFolder opens the store in a folder. It fails while another process has it open.
func OpenFolder(dir string, now func() time.Time) (*Folder, error) {
	lock, err := files.Lock(filepath.Join(dir, "registrar"))
	if err != nil {
		return nil, fmt.Errorf("the state in %s: %w", dir, err)
	}
	return &Folder{dir: dir, now: now, lock: lock, nonces: make(map[string]time.Time)}, nil
}

// Path returns the path of a file.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, name) }

// Close lets another process open the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// Edit implements [Store]. The operator's commands may change the bundle too: they lock it.
func (f *Folder) Edit(_ context.Context, do func(dir string) error) error {
	f.edits.Lock()
	defer f.edits.Unlock()
	return do(f.dir)
}

// Read implements [Store].
func (f *Folder) Read(_ context.Context, name string) ([]byte, error) {
	return files.Read(f.Path(name))
}

// Version implements [Store]. The operator's commands may change the files too.
func (f *Folder) Version(context.Context) (version string, err error) {
	for _, name := range []string{BundleFile, deploymentsFile} {
		info, err := os.Stat(f.Path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		version += fmt.Sprint(name, info.Size(), info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Ino)
	}
	return version, nil
}

// MaxNonces bounds the unused nonces of a store.
const MaxNonces = 10_000

// AddNonce implements [Store].
func (f *Folder) AddNonce(_ context.Context, nonce string, until time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.nonces) >= MaxNonces {
		for old, ends := range f.nonces {
			if !f.now().Before(ends) {
				delete(f.nonces, old)
			}
		}
	}
	if len(f.nonces) >= MaxNonces {
		return refusal.New("overloaded", "%d nonces wait to be used", MaxNonces)
	}
	f.nonces[nonce] = until
	return nil
}

// Spend implements [Store].
func (f *Folder) Spend(_ context.Context, nonce string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.nonces[nonce]
	delete(f.nonces, nonce)
	return ok && f.now().Before(until), nil
}
