package main

import (
	"context"
	"sync"

	"github.com/actionproof/mediator/evidence"
)

// fileSecret is a secret in a file, read at the start, and again after an upstream has refused it: whoever replaces a credential
// replaces the file.
type fileSecret struct {
	path string

	mu     sync.Mutex // guards all below
	secret string
	stale  bool
}

func newFileSecret(path string) (*fileSecret, error) {
	secret, err := readSecret(path, 1)
	return &fileSecret{path: path, secret: secret}, err
}

// Secret returns the secret.
func (f *fileSecret) Secret(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		secret, err := readSecret(f.path, 1)
		if err != nil {
			return "", evidence.Refuse("credential_unavailable", "the file of the credential cannot be read any more")
		}
		f.secret, f.stale = secret, false
	}
	return f.secret, nil
}

// Refused has the file read again before the next use, unless the secret is another one by now.
func (f *fileSecret) Refused(secret string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = f.stale || secret == f.secret
}
