package registrar

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// Other files in a [Store].
const (
	serialFile      = "serial"           // the highest serial number of rules that was seen
	deploymentsFile = "deployments.json" // deployment certificates that Renew has signed, by manifest
)

// SetRules makes the rules count, revokes what they list, and puts their deployments into the history. It refuses rules
// that are older than others that the registrar, or a replica, has seen.
func (r *Registrar) SetRules(ctx context.Context, rules *Rules) error {
	err := r.o.Store.Edit(ctx, func(dir string) error {
		path := filepath.Join(dir, serialFile)
		raw, err := files.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		seen, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err != nil && len(raw) > 0 {
			return err
		}
		if err := rules.Check(seen, r.o.Now()); err != nil {
			return err
		}
		registry := r.registry(dir)
		for hash, token := range rules.Certificates {
			if m := r.manifests[hash]; m != nil {
				if err := keyring.PutDeployment(registry.Bundle, token, m); err != nil {
					return err
				}
			}
		}
		if _, err := registry.Certify(ctx, keyring.Published{}, keyring.Declaration{}); err != nil { // makes the first bundle
			return err
		}
		if err := revoke(ctx, registry, rules.Revoked); err != nil || rules.Serial <= seen {
			return err
		}
		return files.Replace(path, strconv.AppendInt(nil, rules.Serial, 10), 0o600)
	})
	if err == nil {
		r.rules.Store(rules)
	}
	return err
}

// revoke adds the entries that the bundle's list lacks.
func revoke(ctx context.Context, registry *keyring.Registry, entries []evidence.Revocation) error {
	listed, err := registry.Revoked()
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(entries), func(e evidence.Revocation) bool {
		return slices.ContainsFunc(listed, func(l evidence.Revocation) bool { return l.Kind == e.Kind && l.ID == e.ID })
	})
	if len(fresh) > 0 {
		_, err = registry.Revoke(ctx, fresh, func(string) {})
	}
	return err
}

// Keep does what is due: it ends the certificates of keys that belong to processes that are gone, and signs the
// revocation list again. gone gets the last segment of a process's id. Call it every minute.
func (r *Registrar) Keep(ctx context.Context, gone func(own string) bool) (ended int, err error) {
	err = r.o.Store.Edit(ctx, func(dir string) error {
		registry := r.registry(dir)
		due, err := registry.ListDue(r.sign.Lifetime / 4)
		if err == nil && due {
			_, err = registry.Certify(ctx, keyring.Published{}, keyring.Declaration{})
		}
		if err != nil {
			return err
		}
		names, err := registry.KeyNames()
		if err != nil {
			return err
		}
		end := make(map[string]bool)
		for name := range names {
			if _, own, belongs := strings.Cut(name, "/"); belongs && gone(own) {
				end[name] = true
			}
		}
		if len(end) > 0 {
			ended, err = registry.Forget(ctx, func(name string) bool { return end[name] })
		}
		return err
	})
	return ended, err
}

// Renew signs the certificates of the rules' deployments with the auditor's key before they end. Only a registrar that
// has this key can do it.
func (r *Registrar) Renew(ctx context.Context, auditor keyring.RootKey) error {
	rules, err := r.Rules()
	if err != nil {
		return err
	}
	return r.o.Store.Edit(ctx, func(dir string) error {
		path := filepath.Join(dir, deploymentsFile)
		raw, err := files.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		signed, err := parseDeployments(raw)
		if err != nil {
			return err
		}
		for _, rule := range rules.Rules {
			m := r.manifests[rule.DeploymentHash]
			if m == nil || !r.ends(signed[rule.DeploymentHash]) || !r.ends(rules.Certificates[rule.DeploymentHash]) {
				continue
			}
			token, err := r.deployment(ctx, auditor, m)
			if err != nil {
				return err
			}
			signed[rule.DeploymentHash] = token
			if err := keyring.PutDeployment(filepath.Join(dir, BundleFile), token, m); err != nil {
				return err
			}
			if raw, err = json.Marshal(signed); err != nil {
				return err
			}
			if err := files.Replace(path, raw, 0o600); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Registrar) deployment(ctx context.Context, auditor keyring.RootKey, m *policy.Manifest) (string, error) {
	token, _, err := keyring.CertifyDeployment(ctx, auditor, m, DeploymentOptions(m, r.o.Lifetime, r.o.Now))
	return token, err
}

// DeploymentOptions are for a deployment certificate that the manifest itself accepts.
func DeploymentOptions(m *policy.Manifest, lifetime time.Duration, now func() time.Time) signer.Options {
	p := m.DeploymentCertificatePolicy
	o := signer.Options{Lifetime: lifetime, Now: now}
	if len(p.AllowedIssuers) > 0 && len(p.AllowedAudiences) > 0 { // else the audit refuses the manifest
		o.Issuer, o.Audience = p.AllowedIssuers[0], p.AllowedAudiences[0]
	}
	return o
}

// ends reports whether less than half of a deployment certificate's lifetime is left, by its own end and by the
// manifest's greatest age.
func (r *Registrar) ends(token string) bool {
	c, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), token)
	if err != nil {
		return true
	}
	issued, until := time.Unix(c.IssuedAt, 0), time.Unix(c.Expires, 0)
	if strict := r.strict[c.ManifestHash]; strict != nil {
		until = strict.Until(c)
	}
	return r.o.Now().After(issued.Add(until.Sub(issued) / 2))
}

func parseDeployments(raw []byte) (map[string]string, error) {
	var list map[string]string
	if len(raw) > 0 {
		if err := strictjson.Parse(raw, &list); err != nil {
			return nil, err
		}
	}
	if list == nil {
		list = make(map[string]string)
	}
	return list, nil
}

// Bundle returns the trust bundle for processes of a deployment: with the deployment's certificate that ends last.
func (r *Registrar) Bundle(ctx context.Context, deployment string) ([]byte, error) {
	raw, err := r.o.Store.Read(ctx, BundleFile)
	if err != nil {
		return nil, err
	}
	kept, err := r.o.Store.Read(ctx, deploymentsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	signed, err := parseDeployments(kept)
	if err != nil {
		return nil, err
	}
	token := signed[deployment]
	if rules := r.rules.Load(); rules != nil && until(rules.Certificates[deployment]) > until(token) {
		token = rules.Certificates[deployment]
	}
	b, err := evidence.ParseBundle(raw)
	if err != nil || token == "" || token == b.DeploymentCertificate {
		return raw, err
	}
	b.DeploymentCertificate = token
	return json.MarshalIndent(b, "", "  ")
}

func until(token string) int64 {
	c, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), token)
	if err != nil {
		return 0
	}
	return c.Expires
}
