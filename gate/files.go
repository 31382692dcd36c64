package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

// Files says where everything is that an API's part is made of. Registry, Auditor, Manifest and Bundle are paths, or https URLs whose
// server's key is pinned with Pins.
type Files struct {
	// Registry and Auditor are the public keys of the two roots: a JWK, or a JWK Set if the root has a post-quantum key too. They are
	// read once, because another root is another trust: a change needs a restart.
	Registry, Auditor string
	// Manifest is the strict manifest, and Bundle the trust bundle. Both are read again and again.
	Manifest, Bundle string
	// Secret is the path of a file with at least 32 random bytes, the same in all replicas of the API. It is read once.
	Secret string
	// Name is issuer and audience of the API's own challenges and capabilities.
	Name string

	// Pins name the keys that an https server may have: "sha256//" and the base64 SHA-256 of its SubjectPublicKeyInfo, as curl's
	// --pinnedpubkey takes it. The pin takes the place of certificate authorities. Two pins let the server change its key.
	Pins []string
	// Every is the time from one look at manifest and bundle to the next; 2 seconds if it is zero.
	Every time.Duration
	// MaxStale bounds how long ago the manifest and the bundle in force were what Manifest and Bundle hold; 10 minutes if it is zero.
	// While it is longer, because a file is broken or a server does not answer, everything is refused as trust_stale.
	MaxStale time.Duration
	// Changed, if set, is told of each change: nil if it was taken over, otherwise why it was not. It must not block.
	Changed func(error)
	// Now is the clock; time.Now if it is nil.
	Now func() time.Time
}

// Defaults and bounds of [Files].
const (
	defaultEvery    = 2 * time.Second
	defaultMaxStale = 10 * time.Minute
	maxRoot         = 64 << 10 // bytes
	minSecret       = 32       // bytes
)

// FromFiles makes an API's part. It takes over a changed manifest and a changed trust bundle until ctx ends; after that it refuses
// everything once MaxStale is over. What cannot be taken over is not: the one before stays in force, at most for MaxStale. consume must
// be durable and shared by all of the API's replicas.
func FromFiles(ctx context.Context, f Files, consume Consume) (*Server, error) {
	if f.Now == nil {
		f.Now = time.Now
	}
	f.Every, f.MaxStale = cmp.Or(f.Every, defaultEvery), cmp.Or(f.MaxStale, defaultMaxStale)
	if f.Name == "" || consume == nil || f.Every < 0 || f.MaxStale < f.Every {
		return nil, errors.New("gate: FromFiles needs a name and a function that consumes, and MaxStale must not be shorter than Every")
	}
	w, err := f.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	go w.follow(ctx)
	return &Server{gate: w.gate, consume: consume}, nil
}

// followed is a gate that follows its files. After open only follow changes it.
type followed struct {
	f                Files
	manifest, bundle source
	roots            []evidence.Root
	secret           evidence.Secret
	challenges       *challenge.Issuer

	strict      *policy.Strict // in force
	rawManifest []byte         // of strict
	rawBundle   []byte         // of the trust in force
	current     atomic.Pointer[Gate]
	fresh       atomic.Pointer[time.Time] // when manifest and bundle in force were last what the sources hold
}

// open reads everything once.
func (f Files) open(ctx context.Context) (*followed, error) {
	w := &followed{f: f}
	client, err := pinned(f.Pins)
	if err != nil {
		return nil, err
	}
	for _, root := range []struct{ where, purpose string }{
		{f.Registry, evidence.PurposeSignerCertificate}, {f.Auditor, evidence.PurposeDeploymentCertificate},
	} {
		raw, err := readOnce(ctx, root.where, client, maxRoot)
		if err != nil {
			return nil, err
		}
		r, err := evidence.ParseRoot(raw, root.purpose)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root.where, err)
		}
		w.roots = append(w.roots, r)
	}
	secret, err := files.ReadSecret(f.Secret, minSecret)
	if err != nil {
		return nil, err
	}
	if w.secret, err = evidence.NewSecret([]byte(secret)); err != nil {
		return nil, err
	}
	if w.challenges, err = challenge.NewIssuer(w.secret, challenge.Options{Issuer: f.Name, Audience: f.Name, Now: f.Now}); err != nil {
		return nil, err
	}
	if w.manifest, err = newSource(f.Manifest, client, policy.MaxFile); err != nil {
		return nil, err
	}
	if w.bundle, err = newSource(f.Bundle, client, evidence.MaxBundle); err != nil {
		return nil, err
	}
	_, err = w.look(ctx)
	return w, err
}

// follow looks again and again until ctx ends.
func (w *followed) follow(ctx context.Context) {
	said := ""
	for range every.Tick(ctx, w.f.Every) {
		changed, err := w.look(ctx)
		if ctx.Err() != nil {
			return
		}
		why := ""
		if err != nil {
			why = err.Error()
		}
		if w.f.Changed != nil && (changed || why != said && err != nil) { // each reason is said once
			w.f.Changed(err)
		}
		said = why
	}
}

// look reads manifest and bundle, and takes over what has changed. A bundle is taken over under the manifest in force also if the new
// manifest is refused: what it revokes counts at once.
func (w *followed) look(ctx context.Context) (changed bool, err error) {
	at := w.f.Now()
	rawManifest, refused := w.manifest.read(ctx)
	strict := w.strict
	if refused == nil && (strict == nil || !bytes.Equal(rawManifest, w.rawManifest)) {
		if strict, refused = readStrict(rawManifest); refused != nil {
			refused = fmt.Errorf("%s: %w", w.f.Manifest, refused)
		}
	}
	if refused != nil {
		strict, rawManifest = w.strict, w.rawManifest
	}
	if strict == nil { // at the start
		return false, refused
	}
	rawBundle, err := w.bundle.read(ctx)
	if err != nil {
		return false, errors.Join(refused, err)
	}
	if strict != w.strict || !bytes.Equal(rawBundle, w.rawBundle) {
		if err := w.take(strict, rawBundle); err != nil {
			return false, errors.Join(refused, fmt.Errorf("%s: %w", w.f.Bundle, err))
		}
		w.strict, w.rawManifest, w.rawBundle, changed = strict, rawManifest, rawBundle, true
	}
	if refused == nil {
		w.fresh.Store(&at)
	}
	return changed, refused
}

func readStrict(raw []byte) (*policy.Strict, error) {
	m, err := policy.ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	return m.Strict()
}

// take puts a manifest and a bundle in force. It refuses a bundle that takes back what is revoked or retired.
func (w *followed) take(strict *policy.Strict, bundle []byte) error {
	b, err := evidence.ParseBundle(bundle)
	if err != nil {
		return err
	}
	trust, err := evidence.NewTrust(w.roots, b, strict.Signers)
	if err != nil {
		return err
	}
	old := w.current.Load()
	if old != nil {
		if err := trust.Succeeds(old.verifier.Trust()); err != nil {
			return err
		}
	}
	if old != nil && strict == w.strict {
		old.verifier.SetTrust(trust)
		return nil
	}
	verifier, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: w.f.Now})
	if err != nil {
		return err
	}
	g, err := New(Options{Challenges: w.challenges, Secret: w.secret, Issuer: w.f.Name, Verifier: verifier, Strict: strict})
	if err == nil {
		w.current.Store(g)
	}
	return err
}

// gate returns the gate in force unless it is stale.
func (w *followed) gate() (*Gate, error) {
	age := w.f.Now().Sub(*w.fresh.Load())
	if age > w.f.MaxStale {
		return nil, refusal.New("trust_stale", "the API has not been able to read its manifest and its trust bundle again for %s; it believes them for %s",
			age.Round(time.Second), w.f.MaxStale)
	}
	return w.current.Load(), nil
}
