// Package registrar decides which processes get certificates, by rules that the auditor has signed. It knows nothing of
// Kubernetes.
//
//	rules.go      the rules, as they are written and as they are signed
//	rendered.go   the rules in a rendered Helm chart
//	match.go      the rule for a process
//	register.go   certifies the keys that a process proves to hold
//	keys.go       which keys it may have
//	nonce.go      nonces of its proofs
//	keep.go       new rules; renewal and the end of certificates
//	trust.go      the bundle and the manifest that processes get
//	folder.go     the state in a folder
//	authority.go  the CA for pods' TLS certificates
package registrar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// Source is a file of rules as the security team writes it. Beside it are the manifest and the files whose hashes the
// manifest pins: policy.yaml and mediator.yaml.
type Source struct {
	// Serial is a number that each later file raises.
	Serial int64 `json:"serial"`
	// Rules are the rules; the first one that matches a process counts.
	Rules []SourceRule `json:"rules"`
	// Revoke lists what no verifier may accept any more.
	Revoke []SourceRevocation `json:"revoke"`
}

// SourceRevocation names a key, by its name or a version of it, or an artifact by its id.
type SourceRevocation struct {
	// Key is a key's name, or one version such as runtime-key:v3.
	Key string `json:"key"`
	// Artifact is the id of a certificate.
	Artifact string `json:"artifact"`
	// Reason is for those whom it refuses.
	Reason string `json:"reason"`
}

// SourceRule is one rule. It has either an id, or a namespace with a service account and digests. It names the manifest
// by its path, and not by its hash.
type SourceRule struct {
	evidence.RegistrarRule
	// Deployment is the manifest whose issuers and key ids the process may use. Default manifest.yaml.
	Deployment string `json:"deployment"`
}

const (
	maxSource  = 1 << 20              // bytes
	revokedFor = 400 * 24 * time.Hour // no certificate lives longer
)

// ReadSource reads a file of rules and the manifests that it names. A manifest whose pinned hashes are all zeros gets
// those of policy.yaml and of this program with mediator.yaml, which lie beside the rules. Each manifest also allows
// the environments also.
func ReadSource(path string, now time.Time, also ...string) (evidence.RegistrarRules, []*policy.Manifest, error) {
	var out evidence.RegistrarRules
	raw, err := files.ReadUpTo(path, maxSource)
	if err != nil {
		return out, nil, fmt.Errorf("rules: %w", err)
	}
	var s Source
	f, err := strict.Read(raw, &s, strict.Options{JSON: true, MaxBytes: maxSource})
	if err == nil {
		for i, r := range s.Rules {
			if r.DeploymentHash != "" {
				f.Add(fmt.Sprintf("rules[%d].deploymentHash", i), "is not known")
			}
		}
		err = f.Err(path + ": ")
	}
	if err != nil {
		return out, nil, err
	}
	if out.Revoked, err = s.revoked(now); err != nil {
		return out, nil, fmt.Errorf("%s: %w", path, err)
	}
	out.Serial = s.Serial
	var manifests []*policy.Manifest
	known := make(map[string]*policy.Manifest)
	for i, r := range s.Rules {
		name := cmp.Or(r.Deployment, "manifest.yaml")
		m := known[name]
		if m == nil {
			if m, err = pinned(filepath.Dir(path), name); err != nil {
				return out, nil, fmt.Errorf("%s: rules[%d].deployment: %w", path, i, err)
			}
			m.RuntimePolicy.AlsoEnvironmentHashes = append(m.RuntimePolicy.AlsoEnvironmentHashes, also...)
			known[name], manifests = m, append(manifests, m)
		}
		r.DeploymentHash = m.Hash()
		out.Rules = append(out.Rules, r.RegistrarRule)
	}
	return out, manifests, nil
}

func (s *Source) revoked(now time.Time) (all []evidence.Revocation, err error) {
	for _, v := range s.Revoke {
		r := evidence.Revocation{Expires: now.Add(revokedFor).Unix(), ID: v.Key, Kind: evidence.RevokedKey,
			Reason: v.Reason}
		if v.Artifact != "" {
			r.ID, r.Kind = v.Artifact, evidence.RevokedArtifact
		}
		if (v.Key == "") == (v.Artifact == "") || v.Reason == "" {
			return nil, errors.New("each entry of revoke needs a key or an artifact, and a reason")
		}
		all = append(all, r)
	}
	return all, nil
}

const unpinned = "0000000000000000000000000000000000000000000000000000000000000000"

func pinned(dir, name string) (*policy.Manifest, error) {
	at := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	m, err := deployed.ReadManifest(at(name))
	if err != nil {
		return nil, err
	}
	pin := func(hash func() (string, error), of ...*string) error {
		for _, to := range of {
			if *to != unpinned {
				continue
			}
			h, err := hash()
			if err != nil {
				return err
			}
			*to = h
		}
		return nil
	}
	rules := func() (string, error) { return config.PinnedHash(at("policy.yaml")) }
	environment := func() (string, error) { return config.PinnedHash(at("mediator.yaml")) }
	return m, errors.Join(
		pin(rules, &m.RuntimePolicy.RequiredPolicyHash, &m.AgentSessionReceiptPolicy.RequiredPolicyHash),
		pin(environment, &m.RuntimePolicy.RequiredEnvironmentHash,
			&m.AgentSessionReceiptPolicy.RequiredEnvironmentHash))
}

// Signed is a file of signed rules, with the manifests that they name and the auditor's certificates of these.
type Signed struct {
	Rules                  string   `json:"rules"`
	DeploymentCertificates []string `json:"deploymentCertificates"`
	Manifests              []string `json:"manifests"` // canonical JSON
}

const maxSigned, maxDeployments = 8 << 20, 16

// Sign signs rules for [ReadSigned], and certifies the deployments that they name.
func Sign(ctx context.Context, auditor keyring.RootKey, rules evidence.RegistrarRules, manifests []*policy.Manifest,
	lifetime time.Duration, now func() time.Time) (s Signed, err error) {
	if s.Rules, err = keyring.Sign(ctx, evidence.RegistrarRulesKind(), auditor, evidence.AudienceRegistrar, lifetime,
		now, rules); err != nil {
		return s, err
	}
	for _, m := range manifests {
		text, err := m.Canonical()
		if err != nil {
			return s, err
		}
		token, _, err := keyring.CertifyDeployment(ctx, auditor, m, deploymentOptions(m, lifetime, now))
		if err != nil {
			return s, err
		}
		s.Manifests, s.DeploymentCertificates = append(s.Manifests, text), append(s.DeploymentCertificates, token)
	}
	return s, nil
}

// deploymentOptions are for a deployment certificate that the manifest itself accepts.
func deploymentOptions(m *policy.Manifest, lifetime time.Duration, now func() time.Time) signer.Options {
	p := m.DeploymentCertificatePolicy
	o := signer.Options{Lifetime: lifetime, Now: now}
	if len(p.AllowedIssuers) > 0 && len(p.AllowedAudiences) > 0 { // else the audit refuses the manifest
		o.Issuer, o.Audience = p.AllowedIssuers[0], p.AllowedAudiences[0]
	}
	return o
}

// Rules are the rules by which a registrar certifies.
type Rules struct {
	evidence.RegistrarRules
	// Trial says that the rules are not signed.
	Trial bool

	deployments map[string]*deployment // by the hash of the manifest
}

type deployment struct {
	manifest    *policy.Manifest
	strict      *policy.Strict
	text        string // the manifest as canonical JSON
	certificate string // the auditor's, from the file of the rules; may be empty
}

// TrialRules returns unsigned rules.
func TrialRules(rules evidence.RegistrarRules, manifests []*policy.Manifest) (*Rules, error) {
	r := &Rules{RegistrarRules: rules, Trial: true, deployments: make(map[string]*deployment)}
	for _, m := range manifests {
		if err := r.add(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Rules) add(m *policy.Manifest) error {
	strict, err := m.Strict()
	if err != nil {
		return err
	}
	text, err := m.Canonical()
	r.deployments[m.Hash()] = &deployment{manifest: m, strict: strict, text: text}
	return err
}

// ReadSigned verifies a file of signed rules with the auditor's pinned key.
func ReadSigned(path string, auditor evidence.Root, now func() time.Time) (*Rules, error) {
	raw, err := files.ReadUpTo(path, maxSigned)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	r, err := ParseSigned(raw, auditor, now)
	if err != nil {
		return nil, refuse("rules", "rules_refused", "the rules in %s: %w", path, err)
	}
	return r, nil
}

// ParseSigned is [ReadSigned] for the content of a file.
func ParseSigned(raw []byte, auditor evidence.Root, now func() time.Time) (*Rules, error) {
	var s Signed
	if err := strictjson.Parse(raw, &s); err != nil {
		return nil, err
	}
	if len(s.DeploymentCertificates) > maxDeployments || len(s.Manifests) > maxDeployments {
		return nil, fmt.Errorf("there are more than %d deployments", maxDeployments)
	}
	claims, err := keyring.OpenRules(auditor, s.Rules, now)
	if err != nil {
		return nil, err
	}
	r := &Rules{RegistrarRules: claims, deployments: make(map[string]*deployment)}
	for _, text := range s.Manifests {
		m, err := policy.ParseManifest([]byte(text))
		if err == nil && !slices.ContainsFunc(r.Rules, func(rule evidence.RegistrarRule) bool {
			return rule.DeploymentHash == m.Hash()
		}) { // Renew would certify it
			err = fmt.Errorf("no rule that the auditor has signed names the manifest %s", m.Hash())
		}
		if err == nil {
			err = r.add(m)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, token := range s.DeploymentCertificates {
		c, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), token) // every process verifies it
		if err != nil {
			return nil, err
		}
		if d := r.deployments[c.ManifestHash]; d != nil {
			d.certificate = token
		}
	}
	for _, rule := range r.Rules { // the auditor signed the hash
		if r.deployments[rule.DeploymentHash] == nil {
			return nil, fmt.Errorf("the manifest %s, which a rule names, is missing", rule.DeploymentHash)
		}
	}
	return r, nil
}

// signing returns the issuer and audience of custody certificates, which all manifests must allow.
func (r *Rules) signing(lifetime time.Duration, now func() time.Time) (o signer.Options, err error) {
	o = signer.Options{Lifetime: lifetime, Now: now}
	for _, d := range r.deployments {
		p := d.manifest.SignerCertificatePolicy
		issuer, audience := p.AllowedIssuers[0], p.AllowedAudiences[0]
		if o.Issuer != "" && (o.Issuer != issuer || o.Audience != audience) {
			return o, refuse("rules", "rules_refused",
				"the manifests must agree on one issuer and audience of custody certificates, but one allows %s for "+
					"%s, and another %s for %s", o.Issuer, o.Audience, issuer, audience)
		}
		o.Issuer, o.Audience, o.Lifetime = issuer, audience, min(o.Lifetime, d.strict.Signers.MaxAge)
	}
	return o, nil
}

// Check refuses rules that have expired, or are older than those with the serial number seen.
func (r *Rules) Check(seen int64, now time.Time) error {
	switch {
	case r.Trial:
		return nil
	case r.Serial < seen:
		return refuse("rules", "rules_refused",
			"the rules have the serial number %d, but newer rules, with the number %d, have been seen",
			r.Serial, seen)
	case !now.Before(time.Unix(r.Expires, 0)):
		return refuse("rules", "rules_refused", "the rules expired at %s",
			time.Unix(r.Expires, 0).UTC().Format(time.RFC3339))
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
