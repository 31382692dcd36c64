// Package signer knows who signs which artifact with which key: an [Issuer] is one role, bound to one kind of artifact, one key
// and one issuer name.
package signer

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
)

// Key is what an Issuer needs of a key in custody.
type Key interface {
	Current(ctx context.Context) (custody.Version, error)
	Properties() custody.Properties
}

// Options say how an Issuer stamps its artifacts. All but the last two are required.
type Options struct {
	Issuer   string        // iss
	Audience string        // aud
	Lifetime time.Duration // exp - iat, at least 1 s and at most the kind's bound
	Now      func() time.Time
	// Memory, if set, is that of the verifier with which this process opens what it has signed.
	Memory *evidence.Memory
	// Second signs what a root key signs a second time, with ML-DSA-65; nil signs it once.
	Second evidence.Key
}

// Issuer signs artifacts of one kind. It is safe for concurrent use.
type Issuer[C any] struct {
	kind   evidence.Kind[C]
	key    Key             // nil where a shared secret stands in for it
	secret evidence.Secret // its zero value signs nothing
	o      Options
}

// New makes an Issuer and refuses options that would make artifacts which no verifier accepts.
func New[C any](kind evidence.Kind[C], key Key, o Options) (*Issuer[C], error) {
	if key == nil {
		return nil, fmt.Errorf("signer: the issuer of %s needs a key", kind.Typ)
	}
	if err := o.check(kind.Typ, kind.MaxLifetime); err != nil {
		return nil, err
	}
	return &Issuer[C]{kind: kind, key: key, o: o}, nil
}

// NewShared makes an Issuer whose artifacts are authenticated with a secret that their verifier holds too (HS256), as the seed allows
// it for runtime attestations. Such an artifact proves nothing to a third party, and every strict manifest refuses it.
func NewShared[C any](kind evidence.Kind[C], secret evidence.Secret, o Options) (*Issuer[C], error) {
	if o.Second != nil {
		return nil, fmt.Errorf("signer: the issuer of %s has a secret, and so no second key", kind.Typ)
	}
	if err := o.check(kind.Typ, kind.MaxLifetime); err != nil {
		return nil, err
	}
	return &Issuer[C]{kind: kind, secret: secret, o: o}, nil
}

func (o Options) check(typ string, longest time.Duration) error {
	switch {
	case o.Now == nil:
		return fmt.Errorf("signer: the issuer of %s needs a clock", typ)
	case o.Issuer == "" || o.Audience == "":
		return fmt.Errorf("signer: the issuer of %s needs an issuer name and an audience", typ)
	case o.Lifetime < time.Second || o.Lifetime > longest:
		return fmt.Errorf("signer: the lifetime %s of %s is not between 1s and %s", o.Lifetime, typ, longest)
	}
	return nil
}

// Sign stamps c with fresh registered claims and what is known of the key, signs it, and returns the token with the claims
// that went into it.
func (i *Issuer[C]) Sign(ctx context.Context, c C) (token string, signed C, err error) {
	if i.key == nil {
		i.kind.Stamp(&c, i.registered(), evidence.SharedSecret)
		token, err = evidence.SignMAC(i.secret, i.kind, c)
		return token, c, err
	}
	draft, err := i.draft(ctx, c)
	if err != nil {
		return "", c, err
	}
	if token, err = draft.sign(ctx); err == nil && i.o.Second != nil {
		token, err = evidence.Countersign(ctx, i.o.Second, i.kind, token)
	}
	return token, draft.claims, err
}

// Name returns the iss of what the issuer signs.
func (i *Issuer[C]) Name() string { return i.o.Issuer }

func (i *Issuer[C]) registered() evidence.Registered {
	return evidence.NewRegistered(i.o.Issuer, i.o.Audience, i.o.Now(), i.o.Lifetime)
}

// draft is an artifact that lacks its signature.
type draft[C any] struct {
	evidence.Draft
	issuer *Issuer[C]
	key    custody.Version
	claims C // as they are stamped
}

func (i *Issuer[C]) draft(ctx context.Context, c C) (d draft[C], err error) {
	d.issuer = i
	if d.key, err = i.key.Current(ctx); err != nil {
		return d, fmt.Errorf("sign %s: %w", i.kind.Typ, err)
	}
	p := i.key.Properties()
	i.kind.Stamp(&c, i.registered(), evidence.KeyClaims{KeyCustody: p.Custody, KeyExportable: p.Exportable})
	d.claims = c
	d.Draft, err = evidence.Prepare(d.key, i.kind, c)
	return d, err
}

func (d draft[C]) sign(ctx context.Context) (string, error) {
	token, err := d.Sign(ctx)
	if err == nil {
		evidence.Signed(d.issuer.o.Memory, d.issuer.kind, token, d.key.KeyID(), d.key.Public(), d.claims)
	}
	return token, err
}

// SignPair signs two artifacts of which the second rests on the first: rest makes the second's claims from the first's, and from its hash.
// The two signatures are made at the same time, which is one wait for whoever holds the keys and not two. Neither issuer may sign with a
// shared secret, or twice.
func SignPair[A, B any](ctx context.Context, first *Issuer[A], a A, second *Issuer[B], rest func(first A, hash string) B) (tokens [2]string, err error) {
	if first.key == nil || second.key == nil || first.o.Second != nil || second.o.Second != nil {
		return tokens, fmt.Errorf("signer: a %s and a %s cannot be signed as a pair", first.kind.Typ, second.kind.Typ)
	}
	one, err := first.draft(ctx, a)
	if err != nil {
		return tokens, err
	}
	two, err := second.draft(ctx, rest(one.claims, one.Hash()))
	if err != nil {
		return tokens, err
	}
	both, ctx := errgroup.WithContext(ctx)
	for i, sign := range []func(context.Context) (string, error){one.sign, two.sign} {
		both.Go(func() (err error) {
			tokens[i], err = sign(ctx)
			return err
		})
	}
	if err := both.Wait(); err != nil {
		return [2]string{}, err
	}
	return tokens, nil
}
