// Package keystore opens the custody that a configuration names, and the signing keys in it. Processes and the commands
// for root keys share it; the packages of configurations open nothing.
package keystore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/pkcs11"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/files"
)

// Store opens the keys of one process. All of them are in the same custody.
type Store interface {
	// Key returns the key of a role by its name. It logs in nowhere.
	Key(role, name string) (custody.Key, error)
	// Open logs in for each key that Key has returned, and waits until the custody answers. A login can use up what it
	// logs in with.
	Open(ctx context.Context) error
	// Close closes the custody.
	Close() error
}

// Open opens the custody that c names.
func Open(c secrets.Custody, log *zap.Logger) (Store, error) {
	switch {
	case c.Vault != nil:
		return openVault(c.Vault, log)
	case c.PKCS11 != nil:
		return openToken(c.PKCS11)
	}
	return memoryStore{}, nil
}

// PublicKeys says which versions a key in a custody has. It cannot sign.
type PublicKeys interface {
	// Public returns the versions whose signatures are still accepted, oldest first, and the properties of the key.
	Public(ctx context.Context, name string) ([]custody.Version, custody.Properties, error)
}

// Reader returns the public keys of all keys in the custody, read with the login of a role. It is nil for keys in
// memory, which only their process knows. Call it before [Store.Open], which logs in.
func Reader(s Store, role string) PublicKeys {
	switch s := s.(type) {
	case *vaultStore:
		keys := s.server.PublicKeys(login(s.c.Auth, role))
		s.closed = append(s.closed, keys)
		return keys
	case pkcs11Store:
		return s
	}
	return nil
}

type memoryStore struct{}

func (memoryStore) Key(_, name string) (custody.Key, error) { return custody.NewMemory(name) }
func (memoryStore) Open(context.Context) error              { return nil }
func (memoryStore) Close() error                            { return nil }

type pkcs11Store struct{ *pkcs11.Token }

func openToken(c *secrets.PKCS11) (Store, error) {
	pin, err := files.ReadSecret(c.PINFile, 1)
	if err != nil {
		return nil, err
	}
	t, err := pkcs11.Open(pkcs11.Options{Module: c.Module, Token: c.Token, PIN: pin, Hardware: c.Hardware,
		Now: time.Now})
	if err != nil {
		return nil, err
	}
	return pkcs11Store{t}, nil
}

func (t pkcs11Store) Key(_, name string) (custody.Key, error) { return t.Token.Key(name) }
func (pkcs11Store) Open(context.Context) error                { return nil }

type vaultStore struct {
	c      *secrets.Vault
	server *vault.Server
	log    *zap.Logger
	closed []opener // not open yet
}

type opener interface {
	Ready(ctx context.Context) error
	Open(ctx context.Context) error
}

func openVault(c *secrets.Vault, log *zap.Logger) (Store, error) {
	server, err := vault.NewServer(
		vault.Options{Address: c.Address, CAFile: c.CA, Mount: c.Transit, Log: log,
			Now: time.Now})
	if err != nil {
		return nil, err
	}
	return &vaultStore{c: c, server: server, log: log}, nil
}

func (v *vaultStore) Key(role, name string) (custody.Key, error) {
	key := v.server.Prepare(name, login(v.c.Auth, role), v.c.Keys...)
	v.closed = append(v.closed, key)
	return key, nil
}

// Open opens all keys at the same time, and tries again until Vault answers. All tries for a key use the same login.
// None begins before all are ready: a login uses up a wrapped secret id, in vain if another role's cannot follow.
func (v *vaultStore) Open(ctx context.Context) error {
	for _, step := range []func(opener, context.Context) error{opener.Ready, opener.Open} {
		all, ctx := errgroup.WithContext(ctx)
		for _, key := range v.closed {
			all.Go(func() error {
				return await.For(ctx, v.log, "Vault", nil, func() error { return step(key, ctx) })
			})
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	v.closed = nil
	return nil
}

func (v *vaultStore) Close() error { return v.server.Close() }

// Changes reports whether a key of the custody can get new versions while the process runs.
func Changes(s Store) bool {
	_, memory := s.(memoryStore)
	return !memory
}

// Secrets returns the secrets that a role can read in the custody. It fails unless the custody is Vault.
func Secrets(s Store, role string) (*vault.Secrets, error) {
	v, ok := s.(*vaultStore)
	if !ok {
		return nil, fmt.Errorf("credentials in Vault need custody in Vault, not %T", s)
	}
	return v.server.Secrets(login(v.c.Auth, role), v.c.Keys...), nil
}

// Health returns what was last seen of Vault. ok is false unless the custody is Vault.
func Health(s Store) (h vault.Health, ok bool) {
	v, ok := s.(*vaultStore)
	if !ok {
		return h, false
	}
	return v.server.Health(), true
}

func login(all secrets.VaultAuth, role string) vault.Auth {
	switch a := all.For(role); {
	case a.AppRole != nil:
		return &vault.AppRole{
			Mount: a.AppRole.Mount, Role: a.AppRole.Role, RoleIDFile: a.AppRole.RoleIDFile,
			SecretIDFile: a.AppRole.SecretIDFile,
			Wrapped:      !a.AppRole.Unwrapped, Roles: names(func(role string) string { return all.For(role).AppRole.Role }),
		}
	case a.Kubernetes != nil:
		return &vault.Kubernetes{Mount: a.Kubernetes.Mount, Role: a.Kubernetes.Role, JWTFile: a.Kubernetes.TokenFile,
			Roles: names(func(role string) string { return all.For(role).Kubernetes.Role })}
	default:
		return &vault.TokenFile{Path: a.TokenFile}
	}
}

// names returns the names of all roles of a deployment.
func names(of func(role string) string) (all []string) {
	for _, role := range slices.Concat(evidence.RolePurposes(evidence.RoleSidecar),
		evidence.RolePurposes(evidence.RoleTrigger), evidence.RolePurposes(evidence.RoleControl),
		evidence.RolePurposes(evidence.RoleNode), secrets.RootPurposes) {
		if name := of(role); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
