package keyring

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
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/look"
)

const rootKeyWait = 10 * time.Second

// OpenRootKey is [ReadRootKey], but also opens a .yaml file that names a key in Vault or in a token, and its purpose,
// which must be one of purposes. The caller closes the key.
func OpenRootKey(ctx context.Context, path string, stderr io.Writer, purposes ...string) (RootKey, error) {
	if filepath.Ext(path) != ".yaml" {
		return ReadRootKey(path)
	}
	c, err := config.Load[config.RootKey](path)
	if err != nil {
		return RootKey{}, err
	}
	if !slices.Contains(purposes, c.Purpose) {
		return RootKey{}, fmt.Errorf("%s names a root key of the purpose %s, and not %s", path, c.Purpose, purposes[0])
	}
	log, err := logs.New(config.Log{}, "root key", stderr)
	if err != nil {
		return RootKey{}, err
	}
	ring, err := keystore.Open(c.Custody, log)
	if err != nil {
		return RootKey{}, err
	}
	version, err := pinnedVersion(ctx, c, ring)
	if err != nil {
		return RootKey{}, fmt.Errorf("root key %s: %w", path, errors.Join(err, ring.Close()))
	}
	return RootKey{version: version, store: ring}, nil
}

// pinnedVersion opens the pinned version of the key. It refuses a key unless it observes that the custody does not
// export it.
func pinnedVersion(ctx context.Context, c *config.RootKey, ring keystore.Store) (custody.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, rootKeyWait)
	defer cancel()
	key, err := ring.Key(c.Purpose, c.Key)
	if err != nil {
		return custody.Version{}, err
	}
	if err := ring.Open(ctx); err != nil {
		return custody.Version{}, err
	}
	for _, l := range key.Observe(ctx, 0) {
		if l.Name == look.Custody && l.Result != look.Holds {
			return custody.Version{}, custody.Unavailable(nil, "it signs nothing: %s", l.Seen)
		}
	}
	versions, err := key.Versions(ctx)
	if err != nil {
		return custody.Version{}, err
	}
	kid := c.Key + ":v" + strconv.Itoa(max(c.Version, 1))
	i := slices.IndexFunc(versions, func(v custody.Version) bool { return v.KeyID() == kid })
	if i < 0 {
		return custody.Version{}, custody.Unavailable(nil, "there is no %s any more, or not yet", kid)
	}
	return versions[i], nil
}

// Close closes the custody of the key. A key from a file has none.
func (k RootKey) Close() error {
	if k.store == nil {
		return nil
	}
	return k.store.Close()
}

// Set reports whether there is a key: the zero value has none.
func (k RootKey) Set() bool { return k.version.KeyID() != "" }
