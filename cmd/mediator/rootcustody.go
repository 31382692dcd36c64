package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/observe"
)

// rootPurposes are the purposes of root keys.
var rootPurposes = []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate}

// rootKeyWait is for how long a command waits for the custody that holds its root key.
const rootKeyWait = 10 * time.Second

// openRootKey opens a root key: the private file that mediator keys root has made or, where path ends in .yaml, what that file names in
// Vault or in a token. Such a file says for what purpose; purposes are those that will do. Its caller closes the key.
func openRootKey(ctx context.Context, path string, stderr io.Writer, purposes ...string) (rootKey, error) {
	if filepath.Ext(path) != ".yaml" {
		return readRootKey(path)
	}
	l, err := load[rootKeyConfig](path)
	if err != nil {
		return rootKey{}, err
	}
	if err := l.T.check().err(path); err != nil {
		return rootKey{}, err
	}
	if !slices.Contains(purposes, l.T.Purpose) {
		return rootKey{}, fmt.Errorf("%s names a root key of the purpose %s, and not %s", path, l.T.Purpose, purposes[0])
	}
	log, err := newLogger(logConfig{}, "root key", stderr)
	if err != nil {
		return rootKey{}, err
	}
	ring, err := l.T.Custody.open(l.file, log)
	if err != nil {
		return rootKey{}, err
	}
	version, err := l.T.version(ctx, ring)
	if err != nil {
		return rootKey{}, fmt.Errorf("root key %s: %w", path, errors.Join(err, ring.Close()))
	}
	return rootKey{version: version, ring: ring}, nil
}

func (c rootKeyConfig) check() (f findings) {
	f.need("key", c.Key, "purpose", c.Purpose)
	choice("purpose", c.Purpose, &f, rootPurposes...)
	if c.Version < 0 {
		f.add("version", "%d is no version", c.Version)
	}
	c.Custody.check(&f)
	if c.Custody.Type == "memory" {
		f.add("custody.type", "a root key outlives the command that signs with it: vault or pkcs11")
	}
	return f
}

// version opens the version that is pinned, unless the custody would let the key out.
func (c rootKeyConfig) version(ctx context.Context, ring keyring) (custody.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, rootKeyWait)
	defer cancel()
	key, err := ring.key(ctx, c.Purpose, keyConfig{Key: c.Key})
	if err != nil {
		return custody.Version{}, err
	}
	for _, l := range key.Looks(ctx) {
		if l.Name == observe.Custody && l.Result != observe.Holds {
			return custody.Version{}, custody.Unavailable(nil, "it signs nothing: %s", l.Seen)
		}
	}
	versions, err := key.Versions(ctx)
	if err != nil {
		return custody.Version{}, err
	}
	kid := c.Key + ":v" + strconv.Itoa(max(c.Version, 1))
	for _, v := range versions {
		if v.KeyID() == kid {
			return v, nil
		}
	}
	return custody.Version{}, custody.Unavailable(nil, "there is no %s any more, or not yet", kid)
}

// Close lets the custody of the key go; a key from a file has none.
func (k rootKey) Close() error {
	if k.ring == nil {
		return nil
	}
	return k.ring.Close()
}
