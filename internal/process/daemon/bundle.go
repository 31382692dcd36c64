package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/policy"
)

// certificateSettle is the time between the certificate of a new key version and its first signature. An API, which
// cannot say which versions it accepts, has this long to read the bundle again (docs/api-owners.md). It is longer than
// [files.Unwatched].
const certificateSettle = 2 * time.Second

// bundle is a verified trust bundle.
type bundle struct {
	trust      *evidence.Trust
	hash       string
	full       float64 // see [evidence.Bundle.Full]
	deployment string  // the deployment's certificate
}

// parseBundle verifies a bundle. For a process with a manifest it must hold a certificate of a deployment.
func (p *Process) parseBundle(path string, raw []byte, strict *policy.Strict) (*bundle, error) {
	var signers evidence.SignerPolicy
	if strict != nil {
		signers = strict.Signers
	}
	var trust *evidence.Trust
	b, err := evidence.ParseBundle(raw)
	if err == nil {
		trust, err = evidence.NewTrust(p.Roots, b, signers)
	}
	if err != nil {
		return nil, fmt.Errorf("trust bundle %s: %w", path, err)
	}
	if strict != nil && b.DeploymentCertificate == "" {
		return nil, fmt.Errorf("the deployment: %w", await.ErrPending)
	}
	return &bundle{trust, evidence.HashBytes(raw), b.Full(), b.DeploymentCertificate}, nil
}

// TrustFollower keeps a verifier up to date with the bundle file, and holds the auditor's certificate of one manifest.
type TrustFollower struct {
	Strict   *policy.Strict
	Verifier *evidence.Verifier

	p        *Process
	path     string
	seen     string // hash of the content that was read last; after Add only followBundle uses it
	bundle   atomic.Pointer[bundle]
	deployed atomic.Pointer[string]
	until    atomic.Int64 // when the deployment certificate ends, in Unix seconds
}

// readTrust reads the bundle once. It must hold the auditor's certificate of the manifest behind strict. Without a
// manifest it returns nil.
func (p *Process) readTrust(c config.Trust, strict *policy.Strict) (*TrustFollower, error) {
	raw, err := files.Read(c.Bundle)
	if err != nil {
		return nil, fmt.Errorf("trust bundle: %w", err)
	}
	next, err := p.parseBundle(c.Bundle, raw, strict)
	if err != nil || strict == nil {
		return nil, err
	}
	s := &TrustFollower{Strict: strict, p: p, path: c.Bundle, seen: next.hash}
	s.Verifier, err = evidence.NewVerifier(next.trust,
		evidence.VerifierOptions{Now: time.Now, Skew: time.Duration(c.ClockSkew)})
	if err != nil {
		return nil, err
	}
	s.bundle.Store(next)
	return s, s.deploy(next)
}

// deploy takes over the bundle's deployment certificate if it certifies this manifest.
func (s *TrustFollower) deploy(b *bundle) error {
	cert, err := policy.VerifyCertificate(s.Verifier, b.deployment, s.Strict)
	if err != nil {
		return fmt.Errorf("the deployment certificate in %s: %w", s.path, err)
	}
	s.deployed.Store(&b.deployment)
	s.until.Store(s.Strict.Until(cert).Unix())
	return nil
}

// BundleHash returns the SHA-256 of the bundle that was taken over last.
func (s *TrustFollower) BundleHash() string { return s.bundle.Load().hash }

// DeploymentCertificate returns the current deployment certificate.
func (s *TrustFollower) DeploymentCertificate() string { return *s.deployed.Load() }

// follow takes over a changed bundle, or logs why it does not. Certificates and revocations count at once. A deployment
// certificate of another manifest waits for the reload that brings its manifest. A trust that a reload has replaced
// keeps the certificate of its own manifest, which the bundle no longer has.
func (s *TrustFollower) follow(raw []byte, replaced bool) {
	log := s.p.Log
	next, err := s.p.parseBundle(s.path, raw, s.Strict)
	if err == nil {
		err = next.trust.Succeeds(s.Verifier.Trust())
	}
	if err != nil {
		log.Error("the new trust bundle is not taken over", zap.Error(err))
		return
	}
	s.Verifier.SetTrust(next.trust)
	s.bundle.Store(next)
	log.Info("trust bundle taken over", zap.String("path", s.path), zap.String("manifest", s.Strict.ManifestHash))
	if replaced {
		return
	}
	if s.p.Followed != nil {
		s.p.Followed(s)
	}
	if err := s.deploy(next); err != nil {
		log.Warn("the deployment certificate is not taken over: a reload takes a changed manifest with its certificate",
			zap.Error(err))
	}
}

// trustFollowers makes several trusts follow the bundle: that of the current configuration, and those of earlier ones
// that still judge posts.
type trustFollowers struct {
	mu     sync.Mutex // guards stores
	stores []*TrustFollower
}

// Add makes s follow the bundle.
func (w *trustFollowers) Add(s *TrustFollower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = append(w.stores, s)
}

// Drop stops s from following the bundle.
func (w *trustFollowers) Drop(s *TrustFollower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = slices.DeleteFunc(slices.Clone(w.stores), func(o *TrustFollower) bool { return o == s })
}

func (w *trustFollowers) all() []*TrustFollower {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stores)
}

func (w *trustFollowers) current() *TrustFollower {
	all := w.all()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// FollowBundle makes the trusts of this process, and then its roles, follow the bundle until ctx ends.
func (p *Process) FollowBundle(ctx context.Context, c config.Trust) {
	files.Follow(ctx, []string{c.Bundle}, func() error { return p.followBundle(ctx, c.Bundle) }, func(err error) {
		p.Log.Error("this process's keys still sign by the previous trust bundle", zap.Error(err))
	})
}

// followBundle makes the trusts take over the bundle, and then the roles: a role signs with no version that a trust
// does not know. If the bundle certifies no version of a role's key, the roles keep their versions.
func (p *Process) followBundle(ctx context.Context, path string) error {
	raw, err := files.Read(path)
	if err != nil {
		return fmt.Errorf("trust bundle: %w", err)
	}
	hash, trusts := evidence.HashBytes(raw), p.Trust.all()
	for i, s := range trusts {
		if s.seen != hash {
			s.seen = hash
			s.follow(raw, i < len(trusts)-1)
		}
	}
	last := p.signing.Load()
	next := last
	switch {
	case len(trusts) > 0:
		next = trusts[0].bundle.Load()
		if slices.ContainsFunc(trusts, func(s *TrustFollower) bool { return s.BundleHash() != next.hash }) {
			return nil
		}
	case last == nil || last.hash != hash:
		if next, err = p.parseBundle(path, raw, nil); err != nil {
			return err
		}
	}
	if last != nil && last.hash == next.hash {
		p.uncertified.Store(nil) // another bundle may have come and gone
		return nil
	}
	for _, r := range p.Roles {
		if err := certifies(ctx, next.trust, r); err != nil {
			if await.Pending(err) {
				p.uncertified.Store(&err)
			}
			return err
		}
	}
	p.uncertified.Store(nil)
	for _, r := range p.Roles {
		r.Key.Follow(next.trust)
	}
	p.signing.Store(next)
	return nil
}

func certifies(ctx context.Context, trust *evidence.Trust, r Role) error {
	all, err := certificates(ctx, trust, r)
	if err == nil && !slices.ContainsFunc(all, func(c evidence.Certified) bool { return !c.Revoked }) {
		err = fmt.Errorf("key %s (%s): %w", r.Key.Name(), r.Purpose, await.ErrPending)
	}
	return err
}

// certificates returns the certificates of a role's key, also revoked ones.
func certificates(ctx context.Context, trust *evidence.Trust, r Role) ([]evidence.Certified, error) {
	versions, err := r.Key.Versions(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(trust.Certified(), func(c evidence.Certified) bool {
		return !slices.ContainsFunc(versions, func(v custody.Version) bool {
			return v.KeyID() == c.Certificate.SubjectKeyID && v.Public().Equal(c.Public)
		})
	}), nil
}
