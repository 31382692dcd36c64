package postgres

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

var instanceName = regexp.MustCompile(`^[A-Z2-7]{26}\n$`)

// Instance returns the name of the process whose folder is dir in a shared ledger. The name is random, made at the
// first start and kept in dir. No other process gets it until held is closed.
func Instance(dir string) (name string, held io.Closer, err error) {
	path := filepath.Join(dir, "instance")
	defer func() {
		if err != nil {
			err = ledger.Unavailable("name this instance", err)
		}
	}()
	l, err := files.Lock(path)
	if err != nil {
		return "", nil, err
	}
	if name, err = readInstance(path); err != nil {
		return "", nil, errors.Join(err, l.Close())
	}
	return name, l, nil
}

func readInstance(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		raw = []byte(rand.Text() + "\n")
		// Renamed when it is whole: half a name would be another one.
		err = errors.Join(os.WriteFile(path+".new", raw, 0o600), os.Rename(path+".new", path))
	}
	if err != nil {
		return "", err
	}
	if !instanceName.Match(raw) {
		return "", fmt.Errorf("%s does not hold an instance name made by this program: remove it", path)
	}
	return string(raw[:len(raw)-1]), nil
}
