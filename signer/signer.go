// Package signer signs artifacts. An [Issuer] is a role: it signs one kind of artifact with one key and one issuer
// name.
package signer

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
)

// Key signs with its newest version, and states its custody.
type Key interface {
	Current(ctx context.Context) (custody.Version, error)
	Properties() custody.Properties
}

// Options set the claims of an Issuer. All but Second are required.
type Options struct {
	Issuer   string        // iss
	Audience string        // aud
	Lifetime time.Duration // from 1 s to the kind's bound
	Now      func() time.Time
	// Second signs a root's artifacts again with ML-DSA-65; nil signs once.
	Second evidence.Key
}

// Issuer signs artifacts of one kind. It is safe for concurrent use.
type Issuer[C any] struct {
	kind   evidence.Kind[C]
	key    Key             // nil with a shared secret
	secret evidence.Secret // the zero value signs nothing
	o      Options
}

// New makes an Issuer. It refuses options that no verifier would accept.
func New[C any](kind evidence.Kind[C], key Key, o Options) (*Issuer[C], error) {
	if key == nil {
		return nil, fmt.Errorf("signer: the issuer of %s needs a key", kind.Typ)
	}
	if err := o.check(kind.Typ, kind.MaxLifetime); err != nil {
		return nil, err
	}
	return &Issuer[C]{kind: kind, key: key, o: o}, nil
}

// NewShared makes an Issuer with a shared secret (HS256), as the seed allows for runtime attestations. Such an artifact
// proves nothing to a third party, and strict manifests refuse it.
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

// Issue stamps and signs c for this process. Use [Issuer.Sign] for a root that signs twice.
func (i *Issuer[C]) Issue(ctx context.Context, c C) (evidence.Opened[C], error) {
	if i.o.Second != nil {
		return evidence.Opened[C]{}, fmt.Errorf("signer: a %s that is signed twice is made with Sign", i.kind.Typ)
	}
	return i.once(ctx, c)
}

func (i *Issuer[C]) once(ctx context.Context, c C) (evidence.Opened[C], error) {
	if i.key == nil {
		i.kind.Stamp(&c, i.registered(), evidence.SharedSecret)
		return evidence.SignShared(i.secret, i.kind, c)
	}
	draft, err := i.draft(ctx, c)
	if err != nil {
		return evidence.Opened[C]{}, err
	}
	return draft.Sign(ctx)
}

// Sign is [Issuer.Issue] for other processes: it returns the token with every signature, and its claims.
func (i *Issuer[C]) Sign(ctx context.Context, c C) (token string, signed C, err error) {
	o, err := i.once(ctx, c)
	token = o.Token()
	if err == nil && i.o.Second != nil {
		token, err = evidence.Countersign(ctx, i.o.Second, i.kind, token)
	}
	return token, o.Claims(), err
}

// Name returns the iss claim.
func (i *Issuer[C]) Name() string { return i.o.Issuer }

func (i *Issuer[C]) registered() evidence.Registered {
	return evidence.NewRegistered(i.o.Issuer, i.o.Audience, i.o.Now(), i.o.Lifetime)
}

func (i *Issuer[C]) draft(ctx context.Context, c C) (evidence.Draft[C], error) {
	key, err := i.key.Current(ctx)
	if err != nil {
		return evidence.Draft[C]{}, fmt.Errorf("sign %s: %w", i.kind.Typ, err)
	}
	p := i.key.Properties()
	i.kind.Stamp(&c, i.registered(), evidence.KeyClaims{KeyCustody: p.Custody, KeyExportable: p.Exportable})
	return evidence.Prepare(key, i.kind, c)
}

// SignPair signs two artifacts at once, so that a remote key costs one wait. rest makes the second's claims from the
// first's claims and hash. Neither issuer may use a shared secret or sign twice.
func SignPair[A, B any](ctx context.Context, first *Issuer[A], a A, second *Issuer[B],
	rest func(first A, hash string) B) (tokens [2]string, err error) {
	if first.key == nil || second.key == nil || first.o.Second != nil || second.o.Second != nil {
		return tokens, fmt.Errorf("signer: a %s and a %s cannot be signed as a pair", first.kind.Typ, second.kind.Typ)
	}
	one, err := first.draft(ctx, a)
	if err != nil {
		return tokens, err
	}
	two, err := second.draft(ctx, rest(one.Claims(), one.Hash()))
	if err != nil {
		return tokens, err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		o, err := one.Sign(ctx)
		tokens[0] = o.Token()
		return err
	})
	both.Go(func() error {
		o, err := two.Sign(ctx)
		tokens[1] = o.Token()
		return err
	})
	if err := both.Wait(); err != nil {
		return [2]string{}, err
	}
	return tokens, nil
}
