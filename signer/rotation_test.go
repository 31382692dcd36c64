package signer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

type registry struct {
	key     *custody.Memory
	now     time.Time
	revoked string // a kid, or nothing
}

func (r registry) trust(t *testing.T, lifetime time.Duration, versions ...custody.Version) *evidence.Trust {
	t.Helper()
	o := signer.Options{Issuer: "registry", Audience: "aud", Lifetime: lifetime, Now: func() time.Time { return r.now }}
	i, err := signer.New(evidence.SignerCertificateKind(), r.key, o)
	check.Must(t, err)
	var b evidence.Bundle
	if r.revoked != "" {
		list, err := signer.New(evidence.RevocationListKind(), r.key, o)
		check.Must(t, err)
		b.Revocations, _, err = list.Sign(t.Context(), evidence.RevocationList{
			Revoked: []evidence.Revocation{
				{Expires: r.now.Add(lifetime).Unix(), ID: r.revoked, Kind: evidence.RevokedKey, Reason: "lost"}},
		})
		check.Must(t, err)
	}
	for _, v := range versions {
		token, _, err := i.Sign(t.Context(), certificateOf(v))
		check.Must(t, err)
		b.Certificates = append(b.Certificates, token)
	}
	root, err := r.key.Current(t.Context())
	check.Must(t, err)
	trust, err := evidence.NewTrust(
		[]evidence.Root{{KeyID: root.KeyID(), Purpose: evidence.PurposeSignerCertificate, Public: root.Public()}}, b,
		evidence.SignerPolicy{})
	check.Must(t, err)
	return trust
}

func certificateOf(v custody.Version) evidence.SignerCertificate {
	return evidence.SignerCertificate{
		KeyCustody: custody.ExternalMediator, Purposes: []string{evidence.PurposeRequestProof}, SubjectIssuer: "iss",
		SubjectKeyID:     v.KeyID(),
		SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
	}
}

func TestRotation(t *testing.T) {
	clock := now()
	root, err := custody.NewMemory("registry")
	check.Must(t, err)
	r := registry{key: root, now: clock}
	key := &retiring{Memory: memory(t)}
	k := signer.NewRotation(key, 2*time.Second, func() time.Time { return clock })
	version := func(n int) custody.Version {
		t.Helper()
		all, err := key.Memory.Versions(t.Context())
		check.Must(t, err)
		return all[n-1]
	}
	want := func(step string, n int) {
		t.Helper()
		v, err := k.Current(t.Context())
		switch {
		case n == 0 && !errors.Is(err, signer.ErrNotCertified):
			t.Errorf("%s: %v, %v", step, v.KeyID(), err)
		case n > 0 && (err != nil || v.KeyID() != version(n).KeyID()):
			t.Errorf("%s: %v, %v, not version %d", step, v.KeyID(), err, n)
		}
	}
	want("no bundle", 0)
	k.Follow(r.trust(t, time.Hour))
	want("an empty bundle", 0)
	other := memory(t)
	v, err := other.Current(t.Context())
	check.Must(t, err)
	k.Follow(r.trust(t, time.Hour, v))
	want("another key of that name", 0)

	k = signer.NewRotation(key, 2*time.Second, func() time.Time { return clock })
	k.Follow(r.trust(t, time.Hour, version(1)))
	want("certified at the start", 1)
	check.Must(t, key.Rotate())
	want("version 2 is not certified", 1)
	k.Follow(r.trust(t, time.Hour, version(1), version(2)))
	want("version 2 is certified now", 1)
	clock = clock.Add(time.Second)
	k.Follow(r.trust(t, time.Hour, version(2), version(1)))
	want("version 2 is certified for a second", 1)
	clock = clock.Add(time.Second)
	want("version 2 is certified for two seconds", 2)

	check.Must(t, key.Rotate())
	k.Follow(r.trust(t, time.Hour, version(1), version(2), version(3)))
	want("version 3 is certified now", 2)
	key.from = 2
	want("versions 1 and 2 are retired", 3)
	key.from = 0
	k.Follow(r.trust(t, time.Hour, version(1)))
	want("only version 1 is certified", 1)
	r.revoked = version(1).KeyID()
	k.Follow(r.trust(t, time.Hour, version(1)))
	want("version 1 is revoked", 0)
	r.revoked = ""

	clock = r.now
	restart := func(versions ...custody.Version) {
		k = signer.NewRotation(key, 2*time.Second, func() time.Time { return clock })
		k.Follow(r.trust(t, time.Hour, versions...))
	}
	restart(version(1))
	k.Follow(r.trust(t, time.Hour, version(1), version(2)))
	clock = clock.Add(time.Second)
	k.Follow(r.trust(t, time.Hour, version(1), version(2), version(3)))
	key.from = 1
	want("version 1 is retired, version 2 certified for longer than version 3", 2)
	key.from = 0

	check.Must(t, other.Rotate())
	if v, err = other.Current(t.Context()); err != nil || v.KeyID() != version(2).KeyID() {
		t.Fatal(v.KeyID(), err)
	}
	restart(version(1), v)
	k.Follow(r.trust(t, time.Hour, version(1), version(2)))
	want("another key was certified as version 2 before", 1)
	clock = r.now.Add(time.Hour)
	want("the certificate has expired", 0)

	away := signer.NewRotation(failing{Memory: memory(t)}, 0, now)
	if _, err := away.Current(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("a custody that does not answer: %v", err)
	}
}

func TestRotationSignsWhatIsAccepted(t *testing.T) {
	clock := now()
	root, err := custody.NewMemory("registry")
	check.Must(t, err)
	r := registry{key: root, now: clock}
	key := &retiring{Memory: memory(t)}
	for range 2 {
		check.Must(t, key.Rotate())
	}
	all, err := key.Versions(t.Context())
	check.Must(t, err)
	id := func(n int) string { return all[n-1].KeyID() }
	k := signer.NewRotation(key, 2*time.Second, func() time.Time { return clock })
	k.Follow(r.trust(t, time.Hour, all[0], all[1]))
	k.Follow(r.trust(t, time.Hour, all...))
	signs := func(want string) {
		t.Helper()
		if v, err := k.Signs(t.Context()); err != nil || v.KeyID() != want {
			t.Errorf("%s signs (%v), want %s", v.KeyID(), err, want)
		}
	}
	current := func(want string, accepted ...string) {
		t.Helper()
		ctx := t.Context()
		if len(accepted) > 0 {
			ctx = evidence.WithAccepted(ctx, accepted)
		}
		v, err := k.Current(ctx)
		if v.KeyID() != want || (want == "") != errors.Is(err, signer.ErrNotCertified) {
			t.Errorf("accepting %q: %s, %v, want %q", accepted, v.KeyID(), err, want)
		}
	}
	current(id(2))
	current(id(2), id(1), id(2), id(3)) // version 3 is certified now
	clock = clock.Add(2 * time.Second)
	current(id(3))
	current(id(3), id(3), "other:v9")
	signs(id(3))
	current(id(2), id(2), id(1))
	signs(id(2))
	current(id(1), id(1), "other:v3")
	signs(id(1))
	current("", "other:v3")
	current("", "key:v9", "")
	clock = clock.Add(10*time.Minute - time.Second)
	signs(id(1))
	current(id(2), id(2))
	clock = clock.Add(time.Second)
	signs(id(2))

	r.now, r.revoked = clock, id(2) // at once, although a verifier still accepts it
	k.Follow(r.trust(t, time.Hour, all...))
	current("", id(2))
	current(id(3), id(3), id(2))
	signs(id(3))
}

type retiring struct {
	*custody.Memory
	from int
}

func (r *retiring) Versions(ctx context.Context) ([]custody.Version, error) {
	all, err := r.Memory.Versions(ctx)
	if err != nil {
		return nil, err
	}
	return all[r.from:], nil
}
