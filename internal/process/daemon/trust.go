package daemon

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

func (p *Process) notReady() error {
	if waiting := p.waiting.Load(); waiting != nil {
		return refusal.New("not_ready", "the process is not ready: it waits for %s", *waiting)
	}
	return errStarting
}

// WaitFor is [await.For]. Meanwhile /readyz says what the process waits for, and why.
func (p *Process) WaitFor(ctx context.Context, what string, paths []string, try func() error) error {
	defer p.waiting.Store(nil)
	return await.For(ctx, p.Log, what, paths, func() error {
		err := try()
		if err != nil {
			why := what + " (" + err.Error() + ")"
			p.waiting.Store(&why)
		}
		return err
	})
}

// checkFiles refuses a start that the present files would end later, after the keys are open. It skips files that the
// process would wait for.
func (p *Process) checkFiles(plan Plan) error {
	if err := holds(p.Observer.Load().ofAgent()); err != nil {
		return err
	}
	c := plan.Trust
	_, strict, err := readManifest(plan)
	if err != nil && !await.Pending(err) {
		return err
	}
	if p.Roots, err = deployed.ReadRoots(c.Registry, c.Auditor); err == nil {
		if strict != nil {
			_, err = p.readTrust(c, strict)
		} else {
			_, err = readBundle(c.Bundle, p.Roots, "")
		}
	}
	if err != nil && !await.Pending(err) {
		return err
	}
	return nil
}

// WaitForRoots waits for the pinned root keys.
func (p *Process) WaitForRoots(ctx context.Context, c config.Trust) error {
	return p.WaitFor(ctx, "the pinned root keys", []string{c.Registry, c.Auditor}, func() (err error) {
		p.Roots, err = deployed.ReadRoots(c.Registry, c.Auditor)
		return err
	})
}

// changedRoots returns the settings of root keys whose files now hold other keys.
func (p *Process) changedRoots(c config.Trust) (keys []string, err error) {
	now, err := deployed.ReadRoots(c.Registry, c.Auditor)
	if err != nil {
		return nil, err
	}
	for i, key := range [...]string{"trust.registry", "trust.auditor"} {
		if !reflect.DeepEqual(p.Roots[i], now[i]) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// TrustFollower keeps a verifier up to date with the bundle file, and holds the auditor's certificate of one manifest.
type TrustFollower struct {
	path     string
	roots    []evidence.Root
	Strict   *policy.Strict
	Verifier *evidence.Verifier
	raw      string // content that was read last; after Add only trustFollowers.follow uses it
	deployed atomic.Pointer[string]
	until    atomic.Int64 // when the deployment certificate ends, in Unix seconds
	bundle   atomic.Pointer[followedBundle]
	followed func(*TrustFollower) // see Process.Followed
	log      *zap.Logger
}

// WaitForTrust reads the trust of a process whose manifest audits clean. It waits while the bundle does not exist or
// lacks the certificate of the deployment.
func (p *Process) WaitForTrust(ctx context.Context, c config.Trust, strict *policy.Strict) (s *TrustFollower,
	err error) {
	const what = "a trust bundle with the certificate of the deployment"
	err = p.WaitFor(ctx, what, []string{c.Bundle}, func() (err error) { s, err = p.readTrust(c, strict); return err })
	return s, err
}

// readTrust reads the bundle once. It must hold the auditor's certificate of the manifest behind strict.
func (p *Process) readTrust(c config.Trust, strict *policy.Strict) (*TrustFollower, error) {
	s := &TrustFollower{path: c.Bundle, roots: p.Roots, Strict: strict, followed: p.Followed, log: p.Log}
	raw, err := files.Read(s.path)
	if err != nil {
		return nil, fmt.Errorf("trust bundle: %w", err)
	}
	next, b, err := s.read(raw)
	if err != nil {
		return nil, err
	}
	s.Verifier, err = evidence.NewVerifier(next.trust,
		evidence.VerifierOptions{Now: time.Now, Skew: time.Duration(c.ClockSkew)})
	if err != nil {
		return nil, err
	}
	s.bundle.Store(next)
	return s, s.deploy(b)
}

// read verifies the content of the file.
func (s *TrustFollower) read(raw []byte) (*followedBundle, evidence.Bundle, error) {
	s.raw = string(raw)
	var trust *evidence.Trust
	b, err := evidence.ParseBundle(raw)
	if err == nil {
		trust, err = evidence.NewTrust(s.roots, b, s.Strict.Signers)
	}
	if err != nil {
		return nil, b, fmt.Errorf("trust bundle %s: %w", s.path, err)
	}
	if b.DeploymentCertificate == "" {
		return nil, b, fmt.Errorf("the deployment: %w", await.ErrPending)
	}
	return &followedBundle{trust, evidence.HashBytes(raw), b.Full()}, b, nil
}

// deploy takes over the bundle's deployment certificate if it certifies this manifest.
func (s *TrustFollower) deploy(b evidence.Bundle) error {
	cert, err := policy.VerifyCertificate(s.Verifier, b.DeploymentCertificate, s.Strict)
	if err != nil {
		return fmt.Errorf("the deployment certificate in %s: %w", s.path, err)
	}
	s.deployed.Store(&b.DeploymentCertificate)
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
	next, b, err := s.read(raw)
	if err == nil {
		err = next.trust.Succeeds(s.Verifier.Trust())
	}
	if err != nil {
		s.log.Error("the new trust bundle is not taken over", zap.Error(err))
		return
	}
	s.Verifier.SetTrust(next.trust)
	s.bundle.Store(next)
	s.log.Info("trust bundle taken over", zap.String("path", s.path), zap.String("manifest", s.Strict.ManifestHash))
	if replaced {
		return
	}
	if s.followed != nil {
		s.followed(s)
	}
	if err := s.deploy(b); err != nil {
		s.log.Warn("the deployment certificate is not taken over: a reload takes a changed manifest with its "+
			"certificate", zap.Error(err))
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

func (w *trustFollowers) current() *TrustFollower {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.stores) == 0 {
		return nil
	}
	return w.stores[len(w.stores)-1]
}

// taken returns the bundle that every trust has taken over, or nil while they differ. verifies is false if there is no
// trust.
func (w *trustFollowers) taken() (b *followedBundle, verifies bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stores {
		next := s.bundle.Load()
		if b != nil && b.hash != next.hash {
			return nil, true
		}
		b = next
	}
	return b, len(w.stores) > 0
}

// Drop stops s from following the bundle.
func (w *trustFollowers) Drop(s *TrustFollower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = slices.DeleteFunc(slices.Clone(w.stores), func(o *TrustFollower) bool { return o == s })
}

// follow makes each trust take over its bundle file if that has changed. It fails if a file cannot be read now.
func (w *trustFollowers) follow() (unread error) {
	w.mu.Lock()
	stores := slices.Clone(w.stores)
	w.mu.Unlock()
	for i, s := range stores {
		raw, err := files.Read(s.path)
		unread = cmp.Or(unread, err)
		if err == nil && string(raw) != s.raw {
			s.follow(raw, i < len(stores)-1)
		}
	}
	return unread
}

// WaitForManifest waits until the manifest of a plan exists. It returns nil for a plan without a manifest.
func (p *Process) WaitForManifest(ctx context.Context, plan Plan) (m *policy.Manifest, strict *policy.Strict,
	err error) {
	err = p.WaitFor(ctx, "the manifest", []string{plan.Manifest}, func() (err error) {
		m, strict, err = readManifest(plan)
		return err
	})
	return m, strict, err
}

func readManifest(plan Plan) (*policy.Manifest, *policy.Strict, error) {
	if plan.Manifest == "" {
		return nil, nil, nil
	}
	m, strict, err := deployed.ReadAuditedManifest(plan.Manifest)
	if err != nil {
		return nil, nil, err
	}
	if err := plan.CheckManifest(strict); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", plan.Manifest, err)
	}
	return m, strict, nil
}
