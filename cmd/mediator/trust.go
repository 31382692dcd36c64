package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/policy"
)

// check adds what is wrong with the numbers of c to f.
func (c trustConfig) check(f *findings) {
	if skew := time.Duration(c.ClockSkew); skew > evidence.MaxSkew {
		f.add("trust.clockSkew", "%s is more than %s: what is too old would be taken for fresh", skew, evidence.MaxSkew)
	}
}

func readBundle(path string) (evidence.Bundle, []byte, error) {
	raw, err := readFile(path)
	if err != nil {
		return evidence.Bundle{}, nil, fmt.Errorf("trust bundle: %w", err)
	}
	b, err := evidence.ParseBundle(raw)
	if err != nil {
		return b, nil, fmt.Errorf("trust bundle %s: %w", path, err)
	}
	return b, raw, nil
}

// readRoots reads the two pinned root keys, the registry's first.
func readRoots(registry, auditor string) ([]evidence.Root, error) {
	var roots []evidence.Root
	for _, r := range [...]struct{ path, purpose string }{{registry, evidence.PurposeSignerCertificate}, {auditor, evidence.PurposeDeploymentCertificate}} {
		raw, err := readFile(r.path)
		if err != nil {
			return nil, fmt.Errorf("pinned root key: %w", err)
		}
		root, err := evidence.ParseRoot(raw, r.purpose)
		if err != nil {
			return nil, fmt.Errorf("pinned root key %s: %w", r.path, err)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// in returns c with paths that are absolute.
func (c trustConfig) in(file func(string) string) trustConfig {
	c.Registry, c.Auditor, c.Bundle = file(c.Registry), file(c.Auditor), file(c.Bundle)
	return c
}

// openRoots waits for the pinned root keys: in the embedded default they are made once the processes run.
func (p *process) openRoots(ctx context.Context, c trustConfig) (err error) {
	p.roots, err = waitFor(ctx, p.log, "the pinned root keys", func() ([]evidence.Root, error) {
		return readRoots(c.Registry, c.Auditor)
	})
	return err
}

// otherRoots returns the keys of pinned roots that are others now than those that this process believes.
func (p *process) otherRoots(c trustConfig) (keys []string, err error) {
	now, err := readRoots(c.Registry, c.Auditor)
	if err != nil {
		return nil, err
	}
	for i, key := range [...]string{"trust.registry", "trust.auditor"} {
		if !reflect.DeepEqual(p.roots[i], now[i]) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// trustStore keeps a verifier's trust as the bundle file says, and beside it the auditor's certificate of one manifest.
type trustStore struct {
	path     string
	roots    []evidence.Root
	strict   *policy.Strict
	verifier *evidence.Verifier
	raw      string // the content that was looked at last, by trustWatch alone once it is added
	deployed atomic.Pointer[string]
	until    atomic.Int64 // when what is deployed ends, in Unix seconds
	log      *zap.Logger
}

// trustPoll is how often the bundle file is looked at.
const trustPoll = 250 * time.Millisecond

// openTrust reads the trust of a process whose manifest audits clean, and waits for the bundle while it does not exist or has no
// certificate of the deployment.
func (p *process) openTrust(ctx context.Context, c trustConfig, strict *policy.Strict) (*trustStore, error) {
	return waitFor(ctx, p.log, "a trust bundle with the certificate of the deployment", func() (*trustStore, error) {
		return p.readTrust(c, strict)
	})
}

// readTrust reads the bundle once. It has to hold the auditor's certificate of the manifest behind strict.
func (p *process) readTrust(c trustConfig, strict *policy.Strict) (*trustStore, error) {
	s := &trustStore{path: c.Bundle, roots: p.roots, strict: strict, log: p.log}
	trust, b, err := s.read()
	if err != nil {
		return nil, err
	}
	s.verifier, err = evidence.NewVerifier(trust, evidence.VerifierOptions{Now: time.Now, Skew: time.Duration(c.ClockSkew)})
	if err != nil {
		return nil, err
	}
	return s, s.deploy(b)
}

// waitFor tries until it succeeds or ctx ends, while what is missing can still come. It says once what it waits for.
func waitFor[T any](ctx context.Context, log *zap.Logger, what string, try func() (T, error)) (T, error) {
	tick := time.NewTicker(trustPoll / 5)
	defer tick.Stop()
	var because error
	for {
		v, err := try()
		unavailable := (*custody.Error)(nil)
		if err == nil || custody.IsUnfit(err) || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errNotCertified) && !errors.As(err, &unavailable) {
			return v, err
		}
		if because == nil {
			log.Warn("not ready: waiting for "+what, zap.String("because", err.Error()))
		}
		if because == nil || ctx.Err() == nil { // else the end of ctx is what went wrong last
			because = err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("stopped while waiting for %s: %w", what, because)
		case <-tick.C:
		}
	}
}

var errNotCertified = errors.New("not certified yet")

// read reads the bundle file.
func (s *trustStore) read() (*evidence.Trust, evidence.Bundle, error) {
	b, raw, err := readBundle(s.path)
	if err != nil {
		return nil, b, err
	}
	s.raw = string(raw)
	trust, err := evidence.NewTrust(s.roots, b, s.strict.Signers)
	if err != nil {
		return nil, b, fmt.Errorf("trust bundle %s: %w", s.path, err)
	}
	if b.DeploymentCertificate == "" {
		return nil, b, fmt.Errorf("the deployment: %w", errNotCertified)
	}
	return trust, b, nil
}

// deploy takes over the bundle's deployment certificate if it is one of the manifest in force.
func (s *trustStore) deploy(b evidence.Bundle) error {
	cert, err := policy.VerifyCertificate(s.verifier, b.DeploymentCertificate, s.strict)
	if err != nil {
		return fmt.Errorf("the deployment certificate in %s: %w", s.path, err)
	}
	s.deployed.Store(&b.DeploymentCertificate)
	s.until.Store(s.strict.Until(cert).Unix())
	return nil
}

// DeploymentCertificate returns the auditor's token in force.
func (s *trustStore) DeploymentCertificate() string { return *s.deployed.Load() }

// follow takes over a bundle that has changed. One that cannot be believed leaves the old one in force and is said in the log. What the
// registry signed and revoked counts at once; a deployment certificate of another manifest does not, and waits for the reload that brings
// the manifest.
func (s *trustStore) follow() {
	trust, b, err := s.read()
	if err == nil {
		err = trust.Succeeds(s.verifier.Trust())
	}
	if err != nil {
		s.log.Error("the new trust bundle is not taken over", zap.Error(err))
		return
	}
	s.verifier.SetTrust(trust)
	s.log.Info("trust bundle taken over", zap.String("path", s.path), zap.String("manifest", s.strict.ManifestHash))
	if err := s.deploy(b); err != nil {
		s.log.Warn("the deployment certificate is not taken over; a changed manifest and its certificate are taken together, by a reload", zap.Error(err))
	}
}

// trustWatch has the trust of a process follow the bundle: that of the configuration in force, and that of those before it for as long as
// posts are judged by them.
type trustWatch struct {
	mu     sync.Mutex // guards stores
	stores []*trustStore
}

func (w *trustWatch) add(s *trustStore) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = append(w.stores, s)
}

// register registers the metric by which the end of the certificate is seen to come, after which every post is refused.
func (w *trustWatch) register(r prometheus.Registerer) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediator_deployment_certificate_until_seconds",
		Help: "Until when the deployment certificate in force counts, in Unix seconds; 0 before there is one.",
	}, func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.stores) == 0 {
			return 0
		}
		return float64(w.stores[len(w.stores)-1].until.Load())
	}))
}

func (w *trustWatch) drop(s *trustStore) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores = slices.DeleteFunc(slices.Clone(w.stores), func(o *trustStore) bool { return o == s })
}

// watch looks at the bundle file until ctx ends.
func (w *trustWatch) watch(ctx context.Context) {
	for range every.Tick(ctx, trustPoll) {
		w.mu.Lock()
		stores := slices.Clone(w.stores)
		w.mu.Unlock()
		for _, s := range stores {
			if raw, _ := readFile(s.path); string(raw) != s.raw { // what cannot be read counts as empty
				s.follow()
				s.raw = string(raw) // said once for each content
			}
		}
	}
}

// readManifest reads the strict manifest and refuses one that does not audit clean.
func readManifest(path string) (*policy.Manifest, *policy.Strict, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("manifest: %w", err)
	}
	m, err := policy.ParseManifest(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", path, err)
	}
	strict, err := m.Strict()
	if err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", path, err)
	}
	return m, strict, nil
}

// waitForManifest waits for the manifest: in the embedded default it is written once the keys are known.
func waitForManifest(ctx context.Context, log *zap.Logger, path string) (*policy.Manifest, *policy.Strict, error) {
	type both struct {
		m *policy.Manifest
		s *policy.Strict
	}
	b, err := waitFor(ctx, log, "the manifest", func() (both, error) {
		m, s, err := readManifest(path)
		return both{m, s}, err
	})
	return b.m, b.s, err
}
