// Package deployed reads the files beside a configuration: the manifest, the policy, the trust bundle and the pinned
// root keys. It also measures the program.
package deployed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/proxy/match"
)

// ReadManifest reads a deployment manifest without an audit.
func ReadManifest(path string) (*policy.Manifest, error) {
	raw, err := files.Read(path)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m, err := manifest.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", path, err)
	}
	if _, err := Ceiling(m.EgressCeiling); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", path, err)
	}
	return m, nil
}

// Ceiling reads a manifest's egressCeiling.
func Ceiling(patterns []policy.EgressPattern) (ceiling match.Ceiling, err error) {
	for i, p := range patterns {
		m, err := match.Parse(p.URL, p.Methods)
		if err == nil {
			err = match.CheckPattern(m.Path)
		}
		if err != nil {
			return nil, refusal.New("config_malformed", "egressCeiling[%d]: %w", i, err)
		}
		ceiling = append(ceiling, m)
	}
	return ceiling, nil
}

// ReadAuditedManifest reads a deployment manifest, and refuses one that does not audit clean.
func ReadAuditedManifest(path string) (*policy.Manifest, *policy.Strict, error) {
	m, err := ReadManifest(path)
	if err != nil {
		return nil, nil, err
	}
	strict, err := m.Strict()
	if err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", path, err)
	}
	return m, strict, nil
}

// ReadBundle reads a trust bundle, and returns the file's bytes too.
func ReadBundle(path string) (evidence.Bundle, []byte, error) {
	raw, err := files.Read(path)
	if err != nil {
		return evidence.Bundle{}, nil, fmt.Errorf("trust bundle: %w", err)
	}
	b, err := evidence.ParseBundle(raw)
	if err != nil {
		return b, nil, fmt.Errorf("trust bundle %s: %w", path, err)
	}
	return b, raw, nil
}

// HistoryFile returns the path of the first segment of the history beside a trust bundle.
func HistoryFile(bundle string) string {
	ext := filepath.Ext(bundle)
	return strings.TrimSuffix(bundle, ext) + "-history" + ext
}

// ReadRoots reads the two pinned root keys: the registry's, then the auditor's.
func ReadRoots(registry, auditor string) ([]evidence.Root, error) {
	var roots []evidence.Root
	for _, r := range [...]struct{ path, purpose string }{{registry, evidence.PurposeSignerCertificate},
		{auditor, evidence.PurposeDeploymentCertificate}} {
		raw, err := files.Read(r.path)
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

// OfflineVerifier makes a verifier from the files of the pinned root keys and of a trust bundle.
func OfflineVerifier(registry, auditor, bundle string, strict *policy.Strict, now func() time.Time) (
	*evidence.Verifier, evidence.Bundle, error) {
	roots, err := ReadRoots(registry, auditor)
	if err != nil {
		return nil, evidence.Bundle{}, err
	}
	b, _, err := ReadBundle(bundle)
	if err != nil {
		return nil, b, err
	}
	trust, err := evidence.NewTrust(roots, b, strict.Signers)
	if err != nil {
		return nil, b, err
	}
	v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: now})
	return v, b, err
}

// EnvironmentHash returns the hash of this binary and the bytes of a sidecar's configuration.
// The manifest pins it as requiredEnvironmentHash.
func EnvironmentHash(sidecar []byte) (string, error) {
	binary, err := binaryHash()
	if err != nil {
		return "", fmt.Errorf("measure the environment: %w", err)
	}
	return evidence.HashValue(map[string]string{"binary": binary, "config": evidence.HashBytes(sidecar)})
}

// binaryHash hashes the running program, once: the kernel prevents writes to its file.
var binaryHash = sync.OnceValues(func() (string, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer exe.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, exe); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})

// ReadRules reads a policy file.
func ReadRules(path string) (*decide.Rules, error) {
	raw, err := files.Read(path)
	if err != nil {
		return nil, err
	}
	rules, err := decide.ParseRules(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rules, nil
}
