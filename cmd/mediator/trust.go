package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
)

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

// readRoots reads the two pinned root keys.
func readRoots(registry, auditor string) ([]evidence.Root, error) {
	var roots []evidence.Root
	for path, purpose := range map[string]string{registry: evidence.PurposeSignerCertificate, auditor: evidence.PurposeDeploymentCertificate} {
		raw, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("pinned root key: %w", err)
		}
		root, err := evidence.ParseRoot(raw, purpose)
		if err != nil {
			return nil, fmt.Errorf("pinned root key %s: %w", path, err)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// trustStore keeps a verifier's trust as the bundle file says, and the deployment certificate beside it.
type trustStore struct {
	path     string
	roots    []evidence.Root
	strict   *policy.Strict
	verifier *evidence.Verifier
	raw      string
	deployed atomic.Pointer[string]
	log      *zap.Logger
}

// trustPoll is how often the bundle file is looked at.
const trustPoll = 250 * time.Millisecond

// openTrust reads the trust of a process whose manifest audits clean, and waits for the bundle while it does not exist or has no
// certificate of the deployment.
func openTrust(ctx context.Context, c trustConfig, memory *evidence.Memory, file func(string) string, strict *policy.Strict, log *zap.Logger) (*trustStore, error) {
	roots, err := waitFor(ctx, log, "the pinned root keys", func() ([]evidence.Root, error) {
		return readRoots(file(c.Registry), file(c.Auditor))
	})
	if err != nil {
		return nil, err
	}
	s := &trustStore{path: file(c.Bundle), roots: roots, strict: strict, log: log}
	trust, err := waitFor(ctx, log, "a trust bundle with the certificate of the deployment", func() (*evidence.Trust, error) {
		return s.read()
	})
	if err != nil {
		return nil, err
	}
	s.verifier, err = evidence.NewVerifier(trust, evidence.VerifierOptions{Now: time.Now, Skew: time.Duration(c.ClockSkew), Memory: memory})
	if err != nil {
		return nil, err
	}
	if _, err := policy.VerifyCertificate(s.verifier, s.DeploymentCertificate(), strict); err != nil {
		return nil, fmt.Errorf("the deployment certificate in %s: %w", s.path, err)
	}
	return s, nil
}

// waitFor tries until it succeeds or ctx ends, while what is missing can still come. It says once what it waits for.
func waitFor[T any](ctx context.Context, log *zap.Logger, what string, try func() (T, error)) (T, error) {
	tick := time.NewTicker(trustPoll / 5)
	defer tick.Stop()
	said := false
	for {
		v, err := try()
		unavailable := (*custody.Error)(nil)
		if err == nil || custody.IsUnfit(err) || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errNotCertified) && !errors.As(err, &unavailable) {
			return v, err
		}
		if !said {
			log.Warn("not ready: waiting for "+what, zap.String("because", err.Error()))
			said = true
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("stopped while waiting for %s: %w", what, err)
		case <-tick.C:
		}
	}
}

var errNotCertified = errors.New("not certified yet")

// read reads the bundle file.
func (s *trustStore) read() (*evidence.Trust, error) {
	b, raw, err := readBundle(s.path)
	if err != nil {
		return nil, err
	}
	trust, err := evidence.NewTrust(s.roots, b, s.strict.Signers)
	if err != nil {
		return nil, fmt.Errorf("trust bundle %s: %w", s.path, err)
	}
	if b.DeploymentCertificate == "" {
		return nil, fmt.Errorf("the deployment: %w", errNotCertified)
	}
	s.raw = string(raw)
	s.deployed.Store(&b.DeploymentCertificate)
	return trust, nil
}

// DeploymentCertificate returns the auditor's token in force.
func (s *trustStore) DeploymentCertificate() string { return *s.deployed.Load() }

// watch takes over a changed bundle. One that cannot be believed leaves the old one in force and is said in the log.
func (s *trustStore) watch(ctx context.Context) {
	tick := time.NewTicker(trustPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		raw, err := readFile(s.path)
		if err == nil && string(raw) == s.raw {
			continue
		}
		trust, err := s.read()
		if err == nil {
			err = trust.Succeeds(s.verifier.Trust())
		}
		if err != nil {
			s.log.Error("the new trust bundle is not taken over", zap.Error(err))
			s.raw = string(raw) // said once for each content
			continue
		}
		s.verifier.SetTrust(trust)
		s.log.Info("trust bundle taken over", zap.String("path", s.path))
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
