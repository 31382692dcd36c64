// Package signer knows who signs which artifact with which key: an [Issuer] is one role, bound to one kind of artifact, one key
// and one issuer name.
package signer

import (
	"context"
	"fmt"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
)

// Key is what an Issuer needs of a key in custody.
type Key interface {
	Current(ctx context.Context) (custody.Version, error)
	Properties() custody.Properties
}

// Options say how an Issuer stamps its artifacts. All but the last are required.
type Options struct {
	Issuer   string        // iss
	Audience string        // aud
	Lifetime time.Duration // exp - iat, at least 1 s and at most the kind's bound
	Now      func() time.Time
	// Second signs what a root key signs a second time, with ML-DSA-65; nil signs it once.
	Second evidence.Key
}

// Issuer signs artifacts of one kind. It is safe for concurrent use.
type Issuer[C any] struct {
	kind evidence.Kind[C]
	key  Key
	o    Options
}

// New makes an Issuer and refuses options that would make artifacts which no verifier accepts.
func New[C any](kind evidence.Kind[C], key Key, o Options) (*Issuer[C], error) {
	switch {
	case key == nil || o.Now == nil:
		return nil, fmt.Errorf("signer: the issuer of %s needs a key and a clock", kind.Typ)
	case o.Issuer == "" || o.Audience == "":
		return nil, fmt.Errorf("signer: the issuer of %s needs an issuer name and an audience", kind.Typ)
	case o.Lifetime < time.Second || o.Lifetime > kind.MaxLifetime:
		return nil, fmt.Errorf("signer: the lifetime %s of %s is not between 1s and %s", o.Lifetime, kind.Typ, kind.MaxLifetime)
	}
	return &Issuer[C]{kind: kind, key: key, o: o}, nil
}

// Sign stamps c with fresh registered claims and what is known of the key, signs it, and returns the token with the claims
// that went into it.
func (i *Issuer[C]) Sign(ctx context.Context, c C) (token string, signed C, err error) {
	version, err := i.key.Current(ctx)
	if err != nil {
		return "", signed, fmt.Errorf("sign %s: %w", i.kind.Typ, err)
	}
	p := i.key.Properties()
	i.kind.Stamp(&c, evidence.NewRegistered(i.o.Issuer, i.o.Audience, i.o.Now(), i.o.Lifetime),
		evidence.KeyClaims{KeyCustody: p.Custody, KeyExportable: p.Exportable})
	token, err = evidence.Sign(ctx, version, i.kind, c)
	if err == nil && i.o.Second != nil {
		token, err = evidence.Countersign(ctx, i.o.Second, i.kind, token)
	}
	return token, c, err
}
