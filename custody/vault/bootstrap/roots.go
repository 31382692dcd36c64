package bootstrap

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/internal/files"
)

// pinned writes the public key of a root for the processes to pin. Of several versions it is the first.
type pinned struct {
	dir, transit string
	role         Role
}

func (p pinned) file() string { return filepath.Join(p.dir, p.role.Key+".jwk") }

func (p pinned) command() string {
	return fmt.Sprintf("vault read -field=keys %s/keys/%s   # the public key, for %s", p.transit, p.role.Key, p.file())
}

func (p pinned) apply(ctx context.Context, c *api.Client) (Done, error) {
	path := p.transit + "/keys/" + p.role.Key
	answer, err := c.Logical().ReadWithContext(ctx, path)
	if err != nil {
		return Done{}, failed("read "+path, err)
	}
	var key struct {
		Keys map[string]struct {
			Public []byte `json:"public_key"`
		}
	}
	if answer != nil {
		raw, err := json.Marshal(answer.Data)
		if err == nil {
			err = json.Unmarshal(raw, &key)
		}
		if err != nil {
			return Done{}, failed("read "+path, err)
		}
	}
	public := key.Keys["1"].Public
	if len(public) != ed25519.PublicKeySize {
		return Done{}, fmt.Errorf("%s has no version 1: write %s with mediator keys root", path, p.file())
	}
	raw, err := json.MarshalIndent(jose.JSONWebKey{Key: ed25519.PublicKey(public), KeyID: p.role.Key + ":v1",
		Algorithm: "EdDSA", Use: "sig"}, "", "  ")
	if err != nil {
		return Done{}, err
	}
	return writeOnce(p.file(), "written; pin it", 0o644, func() ([]byte, error) { return raw, nil })
}

// signers gives the people who sign with a root key a token, and a file that tells the commands where the key is.
type signers struct {
	*Kubernetes
	transit string
	role    Role
}

const rootTokenPeriod = "24h"

func (s signers) token() string { return filepath.Join(s.Dir, s.role.Purpose+".token") }

func (s signers) command() string {
	return fmt.Sprintf("(umask 077; mkdir -p %s\n vault token create -orphan -policy=%s -no-default-policy -period=%s "+
		"-field=token >%s)", quote(s.Dir), s.role.name(), rootTokenPeriod, quote(s.token()))
}

func (s signers) apply(ctx context.Context, c *api.Client) (Done, error) {
	done, err := writeOnce(s.token(), "written, good for "+rootTokenPeriod, 0o600, func() ([]byte, error) {
		made, err := c.Auth().Token().CreateOrphanWithContext(ctx, &api.TokenCreateRequest{
			Policies: []string{s.role.name()}, NoDefaultPolicy: true, Period: rootTokenPeriod})
		if err != nil {
			return nil, failed("make a token for "+s.role.name(), err)
		}
		return []byte(made.Auth.ClientToken + "\n"), nil
	})
	if err != nil {
		return done, err
	}
	vault := map[string]any{"address": c.Address(), "transit": s.transit, "keys": []string{s.role.Key},
		"auth": map[string]any{"tokenFile": "{role}.token"}}
	if s.CA != "" {
		if vault["ca"], err = filepath.Abs(s.CA); err != nil {
			return done, err
		}
	}
	_, err = writeOnce(filepath.Join(s.Dir, s.role.Key+".yaml"), "", 0o600, func() ([]byte, error) { // JSON is YAML
		raw, err := json.MarshalIndent(map[string]any{"purpose": s.role.Purpose, "key": s.role.Key,
			"custody": map[string]any{"type": "vault", "vault": vault}}, "", "  ")
		return append(raw, '\n'), err
	})
	return done, err
}

// writeOnce writes a file, and its folder. It leaves an existing file, which may be in use.
func writeOnce(path, did string, mode os.FileMode, content func() ([]byte, error)) (Done, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return Done{path, "is there"}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Done{}, err
	}
	raw, err := content()
	if err != nil {
		return Done{}, err
	}
	return Done{path, did}, files.WriteNew(path, raw, mode)
}
