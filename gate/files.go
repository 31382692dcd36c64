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

// Files names the parts of an API's gate by the paths of their files.
type Files struct {
	// The public keys of the two roots: a JWK, or a JWK Set if the root also has a post-quantum key. They are read
	// once; a change needs a restart.
	Registry, Auditor string
	// The JSON manifest and the trust bundle. Changes are followed.
	Manifest, Bundle string
	// Secret holds at least 32 random bytes, the same for all replicas. It is read once.
	Secret string
	// issuer and audience of the API's challenges and capabilities
	Name string

	// pause between two readings; 2 seconds if zero
	Every time.Duration
	// MaxStale bounds the time since the last successful reading, after which every chain is refused as trust_stale; 10
	// minutes if zero.
	MaxStale time.Duration
	// Changed, if set, is called after each change, with the reason for refusing it, if any. It must not block.
	Changed func(error)
	// time.Now if nil
	Now func() time.Time
}

const (
	defaultEvery    = 2 * time.Second
	defaultMaxStale = 10 * time.Minute
	maxRoot         = 64 << 10 // bytes
	minSecret       = 32       // bytes
)

// FromFiles makes a Server, and follows changes of manifest and bundle until ctx ends. It refuses a bad change and
// keeps the previous files for up to MaxStale. consume must be durable and shared by all replicas.
func FromFiles(ctx context.Context, f Files, consume Consume) (*Server, error) {
	if f.Now == nil {
		f.Now = time.Now
	}
	f.Every, f.MaxStale = cmp.Or(f.Every, defaultEvery), cmp.Or(f.MaxStale, defaultMaxStale)
	if f.Name == "" || consume == nil || f.Every < 0 || f.MaxStale < f.Every {
		return nil, errors.New(
			"gate: FromFiles needs a name and a Consume function, and MaxStale must not be shorter than Every")
	}
	w, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	go w.follow(ctx)
	return &Server{gate: w.gate, consume: consume}, nil
}

// Only follow changes a followed gate.
type followed struct {
	f          Files
	roots      []evidence.Root
	secret     evidence.Secret
	challenges *challenge.Issuer

	strict      *policy.Strict
	rawManifest []byte
	rawBundle   []byte // of the current trust
	current     atomic.Pointer[Gate]
	fresh       atomic.Pointer[time.Time] // the last successful reading
}

func (f Files) open() (*followed, error) {
	w := &followed{f: f}
	for _, root := range []struct{ path, purpose string }{
		{f.Registry, evidence.PurposeSignerCertificate}, {f.Auditor, evidence.PurposeDeploymentCertificate},
	} {
		raw, err := files.ReadUpTo(root.path, maxRoot)
		if err != nil {
			return nil, err
		}
		r, err := evidence.ParseRoot(raw, root.purpose)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root.path, err)
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
	if w.challenges, err = challenge.NewIssuer(w.secret,
		challenge.Options{Issuer: f.Name, Audience: f.Name, Now: f.Now}); err != nil {
		return nil, err
	}
	_, err = w.look()
	return w, err
}

func (w *followed) follow(ctx context.Context) {
	said := ""
	for range every.Tick(ctx, w.f.Every) {
		changed, err := w.look()
		why := ""
		if err != nil {
			why = err.Error()
		}
		if w.f.Changed != nil && (changed || why != said && err != nil) { // each reason once
			w.f.Changed(err)
		}
		said = why
	}
}

// look applies a new bundle even if it refuses the new manifest, so that revocations count at once.
func (w *followed) look() (changed bool, err error) {
	at := w.f.Now()
	rawManifest, refused := files.ReadUpTo(w.f.Manifest, policy.MaxFile)
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
	rawBundle, err := files.ReadUpTo(w.f.Bundle, evidence.MaxBundle)
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

// take refuses a bundle that would undo a revocation or a retirement.
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
	g, err := New(
		Options{Challenges: w.challenges, Secret: w.secret, Issuer: w.f.Name, Verifier: verifier, Strict: strict})
	if err == nil {
		w.current.Store(g)
	}
	return err
}

func (w *followed) gate() (*Gate, error) {
	age := w.f.Now().Sub(*w.fresh.Load())
	if age > w.f.MaxStale {
		return nil, refusal.New("trust_stale",
			"the API last read its manifest and its trust bundle %s ago; at most %s are allowed",
			age.Round(time.Second), w.f.MaxStale)
	}
	return w.current.Load(), nil
}
