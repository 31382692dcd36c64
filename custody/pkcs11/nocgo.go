//go:build !cgo

package pkcs11

import (
	"context"
	"errors"

	"github.com/actionproof/mediator/custody"
)

// Token does not exist in this build: a PKCS #11 module is a C library.
type Token struct{}

// Open refuses: this build cannot load a PKCS #11 module.
func Open(Options) (*Token, error) {
	return nil, errors.New(
		"pkcs11: this binary is built without cgo and cannot load a PKCS #11 module: build it with make build-pkcs11")
}

func (*Token) Key(string) (custody.Key, error) { return nil, errors.New("pkcs11: no token") }

func (*Token) Public(context.Context, string) ([]custody.Version, custody.Properties, error) {
	return nil, custody.Properties{}, errors.New("pkcs11: no token")
}

func (*Token) Close() error { return nil }
