package main

import (
	"context"
	"time"

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
	choice("custody.type", c.Type, f, "memory", "pkcs11")
	if (c.PKCS11 != nil) != (c.Type == "pkcs11") {
		f.add("custody.pkcs11", "goes together with type: pkcs11")
	}
	if p := c.PKCS11; p != nil {
		f.need("custody.pkcs11.module", p.Module, "custody.pkcs11.token", p.Token, "custody.pkcs11.pinFile", p.PINFile)
	}
}

// open opens the custody. file makes a path absolute.
func (c custodyConfig) open(file func(string) string) (keyring, error) {
	if c.PKCS11 == nil {
		return memoryRing{}, nil
	}
	pin, err := readSecret(file(c.PKCS11.PINFile), 1)
	if err != nil {
		return nil, err
	}
	token, err := pkcs11.Open(pkcs11.Options{Module: c.PKCS11.Module, Token: c.PKCS11.Token, PIN: pin, Hardware: c.PKCS11.Hardware, Now: time.Now})
	if err != nil {
		return nil, err
	}
	return tokenRing{token}, nil
}

// secrets are the custody's secret files.
func (c custodyConfig) secrets() []string {
	if c.PKCS11 == nil {
		return nil
	}
	return []string{c.PKCS11.PINFile}
}

// memoryRing makes keys in this process's memory.
type memoryRing struct{}

func (memoryRing) key(_ context.Context, _ string, c keyConfig) (custody.Key, error) {
	return custody.NewMemory(c.Key)
}
func (memoryRing) Close() error { return nil }

// tokenRing opens keys in a PKCS #11 token.
type tokenRing struct{ token *pkcs11.Token }

func (r tokenRing) key(_ context.Context, _ string, c keyConfig) (custody.Key, error) {
	return r.token.Key(c.Key)
}
func (r tokenRing) Close() error { return r.token.Close() }
