package daemon

import (
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
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

// notReady says what the process waits for.
func (p *Process) notReady() error {
	if waiting := p.waiting.Load(); waiting != nil {
		return refusal.New("not_ready", "the process is not ready: it waits for %s", *waiting)
	}
	return errStarting
}

// WaitFor is [await.For]. While the process waits, /readyz says for what, and why it has not come.
func WaitFor[T any](ctx context.Context, p *Process, what string, try func() (T, error)) (T, error) {
	defer p.waiting.Store(nil)
	return await.For(ctx, p.Log, what, func() (T, error) {
		v, err := try()
		if err != nil {
			why := what + " (" + err.Error() + ")"
			p.waiting.Store(&why)
		}
		return v, err
	})
}

// CheckFiles refuses a start that the present files would end later, after the keys are open. It skips a file that the
// process would wait for.
func (p *Process) CheckFiles(plan Plan) error {
	if err := holds(p.Observer.Load().ofAgent()); err != nil {
		return err
	}
	c := plan.Trust
	var strict *policy.Strict
	if plan.Manifest != "" {
		_, s, err := config.ReadAuditedManifest(plan.Manifest)
		if err == nil {
			if err := plan.CheckManifest(s); err != nil {
				return fmt.Errorf("%s: %w", plan.Manifest, err)
			}
		} else if !await.Pending(err) {
			return err
		}
		strict = s
	}
	var err error
	if p.Roots, err = config.ReadRoots(c.Registry, c.Auditor); err == nil {
		if strict != nil {
			_, err = p.ReadTrust(c, strict)
		} else {
			err = checkBundle(c.Bundle, p.Roots)
		}
	}
	if err != nil && !await.Pending(err) {
		return err
	}
	return nil
}

// checkBundle refuses a trust bundle that the roots have not signed.
func checkBundle(path string, roots []evidence.Root) error {
	b, _, err := config.ReadBundle(path)
	if err == nil {
		_, err = evidence.NewTrust(roots, b, evidence.SignerPolicy{})
	}
	return err
}

// WaitForRoots waits for the pinned root keys.
func (p *Process) WaitForRoots(ctx context.Context, c config.Trust) (err error) {
	p.Roots, err = WaitFor(ctx, p, "the pinned root keys", func() ([]evidence.Root, error) {
		return config.ReadRoots(c.Registry, c.Auditor)
	})
	return err
}

// changedRoots returns the settings of the pinned root keys whose files differ from the keys that this process trusts.
func (p *Process) changedRoots(c config.Trust) (keys []string, err error) {
	now, err := config.ReadRoots(c.Registry, c.Auditor)
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

// TrustFollower keeps a verifier's trust up to date with the bundle file, and holds the auditor's certificate of one
// manifest.
type TrustFollower struct {
	path     string
	roots    []evidence.Root
	Strict   *policy.Strict
	Verifier *evidence.Verifier
	raw      string // content that was read last; after Add only TrustFollowers.follow uses it
	deployed atomic.Pointer[string]
	until    atomic.Int64 // when the deployment certificate ends, in Unix seconds
	inForce  atomic.Pointer[followedBundle]
	log      *zap.Logger
}

// trustPoll is how often a process reads a file that it follows if the kernel reports no change. It is less than
// certificateSettle.
const trustPoll = time.Second

// WaitForTrust reads the trust of a process whose manifest audits clean. It waits while the bundle does not exist or
// lacks the certificate of the deployment.
func (p *Process) WaitForTrust(ctx context.Context, c config.Trust, strict *policy.Strict) (*TrustFollower, error) {
	return WaitFor(ctx, p, "a trust bundle with the certificate of the deployment", func() (*TrustFollower, error) {
		return p.ReadTrust(c, strict)
	})
}

// ReadTrust reads the bundle once. The bundle has to hold the auditor's certificate of the manifest that strict is made
// of.
func (p *Process) ReadTrust(c config.Trust, strict *policy.Strict) (*TrustFollower, error) {
	s := &TrustFollower{path: c.Bundle, roots: p.Roots, Strict: strict, log: p.Log}
	next, b, err := s.read()
	if err != nil {
		return nil, err
	}
	s.Verifier, err = evidence.NewVerifier(next.trust,
		evidence.VerifierOptions{Now: time.Now, Skew: time.Duration(c.ClockSkew)})
	if err != nil {
		return nil, err
	}
	s.inForce.Store(next)
	return s, s.deploy(b)
}

// read reads the bundle file.
func (s *TrustFollower) read() (*followedBundle, evidence.Bundle, error) {
	b, raw, err := config.ReadBundle(s.path)
	if err != nil {
		return nil, b, err
	}
	s.raw = string(raw)
	trust, err := evidence.NewTrust(s.roots, b, s.Strict.Signers)
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

// CheckSuccessor refuses a trust that undoes what the trust before it knows, such as the retirement of a key version.
func (s *TrustFollower) CheckSuccessor(before *TrustFollower) error {
	return s.Verifier.Trust().Succeeds(before.Verifier.Trust())
}

// DeploymentCertificate returns the current deployment certificate.
func (s *TrustFollower) DeploymentCertificate() string { return *s.deployed.Load() }

// follow takes over a bundle that has changed. If the bundle is not trusted, the old one stays and follow logs an
// error. The registry's signatures and revocations count at once. A deployment certificate of another manifest waits
// for the reload that brings its manifest. A trust that a reload has replaced keeps the certificate of its own
// manifest, because the bundle no longer has it.
func (s *TrustFollower) follow(replaced bool) {
	next, b, err := s.read()
	if err == nil {
		err = next.trust.Succeeds(s.Verifier.Trust())
	}
	if err != nil {
		s.log.Error("the new trust bundle is not taken over", zap.Error(err))
		return
	}
	s.Verifier.SetTrust(next.trust)
	s.inForce.Store(next)
	s.log.Info("trust bundle taken over", zap.String("path", s.path), zap.String("manifest", s.Strict.ManifestHash))
	if replaced {
		return
	}
	if err := s.deploy(b); err != nil {
		s.log.Warn(
			"the deployment certificate is not taken over; a changed manifest and its certificate are taken together, by a "+
				"reload", zap.Error(err))
	}
}

// TrustFollowers makes trusts follow the bundle: the trust of the current configuration, and those of earlier
// configurations while posts are still judged by them.
type TrustFollowers struct {
	mu     sync.Mutex // guards stores
	stores []*TrustFollower
}

// Add makes s follow the bundle.
func (w *TrustFollowers) Add(s *TrustFollower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = append(w.stores, s)
}

// inForce returns the trust of the current configuration, or nil before there is one.
func (w *TrustFollowers) inForce() *TrustFollower {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.stores) == 0 {
		return nil
	}
	return w.stores[len(w.stores)-1]
}

// taken returns the bundle that every trust has taken over, or nil while they differ. verifies is false while there is
// no trust.
func (w *TrustFollowers) taken() (b *followedBundle, verifies bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stores {
		next := s.inForce.Load()
		if b != nil && b.hash != next.hash {
			return nil, true
		}
		b = next
	}
	return b, len(w.stores) > 0
}

// Drop stops s from following the bundle.
func (w *TrustFollowers) Drop(s *TrustFollower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = slices.DeleteFunc(slices.Clone(w.stores), func(o *TrustFollower) bool { return o == s })
}

// follow reads the bundle file for each trust.
func (w *TrustFollowers) follow() {
	w.mu.Lock()
	stores := slices.Clone(w.stores)
	w.mu.Unlock()
	for i, s := range stores {
		if raw, _ := files.Read(s.path); string(raw) != s.raw { // a file that cannot be read counts as empty
			s.follow(i < len(stores)-1)
			s.raw = string(raw) // so that an error is logged once for each content
		}
	}
}

// WaitForManifest waits until the manifest exists and reads it.
func (p *Process) WaitForManifest(ctx context.Context, path string) (*policy.Manifest, *policy.Strict, error) {
	var strict *policy.Strict
	m, err := WaitFor(ctx, p, "the manifest", func() (m *policy.Manifest, err error) {
		m, strict, err = config.ReadAuditedManifest(path)
		return m, err
	})
	return m, strict, err
}
