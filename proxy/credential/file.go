package credential

import (
	"context"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

// file is read at the start, and again after an upstream has refused its secret, so an operator replaces a credential
// by replacing the file.
type file struct {
	path  string
	parse func(text string) (Value, error)

	mu    sync.Mutex // guards the fields below
	value Value
	stale bool
}

// File is the source of a secret in a file. parse reads its text; nil takes it whole.
func File(path string, parse func(string) (Value, error)) (Source, error) {
	if parse == nil {
		parse = func(text string) (Value, error) { return Value{Secret: text}, nil }
	}
	f := &file{path: path, parse: parse}
	return f, f.read()
}

func (f *file) read() error {
	text, err := files.ReadSecret(f.path, 1)
	if err == nil {
		f.value, err = f.parse(text)
		f.value.Read = time.Now()
	}
	return err
}

func (f *file) Current(context.Context) (Value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		if err := f.read(); err != nil {
			return Value{}, refusal.New("custody_unavailable", "the file of the credential cannot be read any more")
		}
		f.stale = false
	}
	return f.value, nil
}

// Refused makes the next use read the file again, unless the refused secret is no longer the current one.
func (f *file) Refused(v Value) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = f.stale || v == f.value
}
