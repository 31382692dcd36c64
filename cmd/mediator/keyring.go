package main

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/pkcs11"
)

// keyring opens the keys of one process, all in the same custody.
type keyring interface {
	// key opens the key of one role.
	key(ctx context.Context, purpose string, c keyConfig) (custody.Key, error)
	// Close lets the custody go.
	Close() error
}

// check adds what is wrong with a custody's configuration to f.
func (c custodyConfig) check(f *findings) {
	f.need("custody.type", c.Type)
	choice("custody.type", c.Type, f, "memory", "vault", "pkcs11")
	if (c.Vault != nil) != (c.Type == "vault") {
		f.add("custody.vault", "goes together with type: vault")
	}
	if (c.PKCS11 != nil) != (c.Type == "pkcs11") {
		f.add("custody.pkcs11", "goes together with type: pkcs11")
	}
	if c.Vault != nil {
		c.Vault.check("custody.vault", f)
	}
	if p := c.PKCS11; p != nil {
		f.need("custody.pkcs11.module", p.Module, "custody.pkcs11.token", p.Token, "custody.pkcs11.pinFile", p.PINFile)
	}
}

// open opens the custody. file makes a path absolute.
func (c custodyConfig) open(file func(string) string, log *zap.Logger) (keyring, error) {
	switch {
	case c.Vault != nil:
		return c.Vault.keyring(file, log)
	case c.PKCS11 != nil:
		return c.PKCS11.keyring(file)
	}
	return memoryRing{}, nil
}

// secrets are the custody's secret files, for the process's own roles.
func (c custodyConfig) secrets(roles []role) []string {
	switch {
	case c.Vault != nil:
		return c.Vault.secrets(roles)
	case c.PKCS11 != nil:
		return []string{c.PKCS11.PINFile}
	}
	return nil
}

// public are the custody's files that are no secret, and by which somebody else could stand in for it.
func (c custodyConfig) public() []string {
	switch {
	case c.Vault != nil:
		return []string{c.Vault.CA}
	case c.PKCS11 != nil:
		return []string{c.PKCS11.Module}
	}
	return nil
}

// memoryRing makes keys in this process's memory.
type memoryRing struct{}

func (memoryRing) key(_ context.Context, _ string, c keyConfig) (custody.Key, error) {
	return custody.NewMemory(c.Key)
}
func (memoryRing) Close() error { return nil }

// tokenRing opens keys in a PKCS #11 token.
type tokenRing struct{ token *pkcs11.Token }

func (p *pkcs11Config) keyring(file func(string) string) (keyring, error) {
	pin, err := readSecret(file(p.PINFile), 1)
	if err != nil {
		return nil, err
	}
	token, err := pkcs11.Open(pkcs11.Options{Module: p.Module, Token: p.Token, PIN: pin, Hardware: p.Hardware, Now: time.Now})
	if err != nil {
		return nil, err
	}
	return tokenRing{token}, nil
}

func (r tokenRing) key(_ context.Context, _ string, c keyConfig) (custody.Key, error) {
	return r.token.Key(c.Key)
}
func (r tokenRing) Close() error { return r.token.Close() }
