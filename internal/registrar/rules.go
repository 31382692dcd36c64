// Package registrar decides which processes get certificates, by rules that the auditor has signed. It knows nothing of
// Kubernetes.
//
//	rules.go      the rules, as they are written and as they are signed
//	match.go      the rule for a process
//	nonce.go      nonces that are used once
//	register.go   certifies the keys that a process proves to hold
//	authority.go  the CA for pods' TLS certificates
package registrar

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/policy"
)

// Source is a file of rules as the security team writes it.
type Source struct {
	// Serial is a number that each later file raises.
	Serial int64 `yaml:"serial"`
	// Rules are the rules; the first one that matches a process counts.
	Rules []SourceRule `yaml:"rules"`
	// Revoke lists what no verifier may accept any more.
	Revoke []SourceRevocation `yaml:"revoke"`
}

// SourceRevocation names a key, by its name or a version of it, or an artifact by its id.
type SourceRevocation struct {
	// Key is a key's name, or one version such as runtime-key:v3.
	Key string `yaml:"key"`
	// Artifact is the id of a certificate.
	Artifact string `yaml:"artifact"`
	// Reason is for those whom it refuses.
	Reason string `yaml:"reason"`
}

// SourceRule is one rule. It has either an id, or a namespace with a service account and digests.
type SourceRule struct {
	// ID is a SPIFFE id; a segment of its path may be *.
	ID string `yaml:"id"`
	// Namespace is the pod's.
	Namespace string `yaml:"namespace"`
	// ServiceAccount is the pod's.
	ServiceAccount string `yaml:"serviceAccount"`
	// ImageDigests are the images of the containers that hold the pod's certificate, as sha256:HEX.
	ImageDigests []string `yaml:"imageDigests"`
	// DNSNames are further names in the pod's certificate.
	DNSNames []string `yaml:"dnsNames"`
	// Role is sidecar, trigger, control or node.
	Role string `yaml:"role"`
	// Deployment is the manifest whose issuers and key ids the process may use.
	Deployment string `yaml:"deployment"`
	// AccessibleToAgent declares that the agent can reach the keys.
	AccessibleToAgent bool `yaml:"accessibleToAgent"`
	// AccessibleToUsers declares that users can reach the keys.
	AccessibleToUsers bool `yaml:"accessibleToUsers"`
}

const (
	maxSource  = 1 << 20              // bytes
	revokedFor = 400 * 24 * time.Hour // no certificate lives longer
)

// ReadSource reads a file of rules, and the manifests that it names. A trial has one manifest, which its rules need not
// name, and may leave out digests: then any image counts.
func ReadSource(path string, trial *policy.Manifest, now time.Time) (evidence.RegistrarRules, []*policy.Manifest,
	error) {
	var out evidence.RegistrarRules
	raw, err := files.ReadUpTo(path, maxSource)
	if err != nil {
		return out, nil, fmt.Errorf("rules: %w", err)
	}
	var s Source
	f, err := strict.Read(raw, &s, strict.Options{MaxBytes: maxSource})
	if err == nil {
		err = f.Err(path + ": ")
	}
	if err != nil {
		return out, nil, err
	}
	out.Serial = s.Serial
	for _, v := range s.Revoke {
		r := evidence.Revocation{Expires: now.Add(revokedFor).Unix(), ID: v.Key, Kind: evidence.RevokedKey, Reason: v.Reason}
		if v.Artifact != "" {
			r.ID, r.Kind = v.Artifact, evidence.RevokedArtifact
		}
		if (v.Key == "") == (v.Artifact == "") || v.Reason == "" {
			return out, nil, fmt.Errorf("%s: each entry of revoke needs a key or an artifact, and a reason", path)
		}
		out.Revoked = append(out.Revoked, r)
	}
	var manifests []*policy.Manifest
	known := make(map[string]*policy.Manifest)
	for i, r := range s.Rules {
		m := trial
		if m == nil || r.Deployment != "" {
			at := r.Deployment
			if !filepath.IsAbs(at) {
				at = filepath.Join(filepath.Dir(path), at)
			}
			if m = known[at]; m == nil {
				if m, err = config.ReadManifest(at); err != nil {
					return out, nil, fmt.Errorf("%s: rules[%d].deployment: %w", path, i, err)
				}
				known[at], manifests = m, append(manifests, m)
			}
		}
		out.Rules = append(out.Rules, evidence.RegistrarRule{
			AccessibleToAgent: r.AccessibleToAgent, AccessibleToUsers: r.AccessibleToUsers, DeploymentHash: m.Hash(),
			DNSNames: r.DNSNames, ID: r.ID, ImageDigests: r.ImageDigests, Namespace: r.Namespace, Role: r.Role,
			ServiceAccount: r.ServiceAccount,
		})
	}
	return out, manifests, nil
}

// Signed is a file of signed rules, with the auditor's certificates of the deployments that they name.
type Signed struct {
	Rules                  string   `json:"rules"`
	DeploymentCertificates []string `json:"deploymentCertificates"`
}

const maxSigned, maxDeployments = 1 << 20, 64

// Rules are the rules by which a registrar certifies.
type Rules struct {
	evidence.RegistrarRules
	// Certificates are the deployments' certificates by the hash of the manifest.
	Certificates map[string]string
	// Trial says that the rules are not signed.
	Trial bool
}

// ReadSigned verifies a file of signed rules with the auditor's pinned key.
func ReadSigned(path string, auditor evidence.Root, now func() time.Time) (*Rules, error) {
	raw, err := files.ReadUpTo(path, maxSigned)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	r, err := parseSigned(raw, auditor, now)
	if err != nil {
		return nil, refuse("rules", "rules_refused", "the rules in %s: %w", path, err)
	}
	return r, nil
}

func parseSigned(raw []byte, auditor evidence.Root, now func() time.Time) (*Rules, error) {
	var s Signed
	if err := strictjson.Parse(raw, &s); err != nil {
		return nil, err
	}
	if len(s.DeploymentCertificates) > maxDeployments {
		return nil, fmt.Errorf("there are %d deployment certificates; at most %d are read", len(s.DeploymentCertificates),
			maxDeployments)
	}
	claims, err := keyring.OpenRules(auditor, s.Rules, now)
	if err != nil {
		return nil, err
	}
	r := &Rules{RegistrarRules: claims, Certificates: make(map[string]string)}
	for _, token := range s.DeploymentCertificates {
		c, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), token) // every process verifies it
		if err != nil {
			return nil, err
		}
		r.Certificates[c.ManifestHash] = token
	}
	return r, nil
}

// Check refuses rules that have expired, or are older than those with the serial number seen.
func (r *Rules) Check(seen int64, now time.Time) error {
	switch {
	case r.Trial:
		return nil
	case r.Serial < seen:
		return refuse("rules", "rules_refused", "the rules have the serial number %d, and rules with %d have been seen",
			r.Serial, seen)
	case !now.Before(time.Unix(r.Expires, 0)):
		return refuse("rules", "rules_refused", "the rules ended at %s", time.Unix(r.Expires, 0).UTC().Format(time.RFC3339))
	}
	return nil
}

// Namespaces returns the namespaces that the rules name.
func (r *Rules) Namespaces() (all []string) {
	for _, rule := range r.Rules {
		if rule.Namespace != "" && !slices.Contains(all, rule.Namespace) {
			all = append(all, rule.Namespace)
		}
	}
	return all
}

var errNoRules = errors.New("no rules have been read yet")
