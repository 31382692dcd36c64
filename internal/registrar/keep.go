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
)

// Other files in a [Store].
const (
	serialFile      = "serial"           // the highest serial number of rules that was seen
	deploymentsFile = "deployments.json" // deployment certificates that Renew has signed, by manifest
)

// SetRules makes the rules count, revokes what they list, and puts their deployments into the history. It refuses rules
// that are older than others that the registrar, or a replica, has seen.
func (r *Registrar) SetRules(ctx context.Context, rules *Rules) error {
	sign, err := rules.signing(r.o.Lifetime, r.o.Now)
	if err != nil {
		return err
	}
	r.setting.Lock() // otherwise older rules could come into force after newer ones
	defer r.setting.Unlock()
	err = r.o.Store.Edit(ctx, func(dir string) error {
		seen, err := r.newest(dir, rules)
		if err != nil {
			return err
		}
		registry := r.registry(dir, sign)
		for _, d := range rules.deployments {
			if d.certificate == "" {
				continue
			}
			if err := keyring.PutDeployment(registry.Bundle, d.certificate, d.manifest); err != nil {
				return err
			}
		}
		_, err = registry.Edit(ctx, func(e *keyring.Edit) error { // makes the first bundle
			fresh := slices.DeleteFunc(slices.Clone(rules.Revoked), func(r evidence.Revocation) bool {
				return e.Revokes(r.Kind, r.ID)
			})
			if err := tidy(ctx, e); err != nil || len(fresh) == 0 {
				return err
			}
			_, err := e.Revoke(ctx, fresh, func(string) {})
			return err
		})
		if err != nil || rules.Serial <= seen {
			return err
		}
		return files.Replace(filepath.Join(dir, serialFile), strconv.AppendInt(nil, rules.Serial, 10), 0o600)
	})
	if err == nil {
		r.active.Store(&active{rules, sign})
		r.see(rules.Serial)
	}
	return err
}

// number returns the number in a file, or 0 if the file does not exist.
func number(raw []byte, err error) (int64, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
}

// tidy signs the revocation list again, and lets certificates that have expired leave the bundle.
func tidy(ctx context.Context, e *keyring.Edit) error {
	return e.Certify(ctx, keyring.Published{}, keyring.Declaration{})
}

// Keep does what is due: it ends the certificates of keys that belong to processes that are gone, and signs the
// revocation list again. gone gets the last segment of a process's id. Call it every minute.
func (r *Registrar) Keep(ctx context.Context, gone func(own string) bool) (ended int, err error) {
	a, err := r.current()
	if err != nil {
		return 0, err
	}
	err = r.o.Store.Edit(ctx, func(dir string) error {
		if _, err := r.newest(dir, a.rules); err != nil { // newer ones may have more namespaces
			return err
		}
		_, err := r.registry(dir, a.sign).Edit(ctx, func(e *keyring.Edit) error {
			if e.ListDue(a.sign.Lifetime / 4) {
				if err := tidy(ctx, e); err != nil {
					return err
				}
			}
			ended = e.Forget(func(name string) bool {
				_, own, belongs := strings.Cut(name, "/")
				return belongs && gone(own)
			})
			return nil
		})
		return err
	})
	if err != nil {
		ended = 0
	}
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
		if _, err := r.newest(dir, rules); err != nil { // newer ones may no longer have a deployment
			return err
		}
		path := filepath.Join(dir, deploymentsFile)
		raw, err := files.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		signed, err := parseDeployments(raw)
		if err != nil {
			return err
		}
		for hash, d := range rules.deployments {
			if !r.ends(d, signed[hash]) || !r.ends(d, d.certificate) {
				continue
			}
			token, _, err := keyring.CertifyDeployment(ctx, auditor, d.manifest,
				deploymentOptions(d.manifest, r.o.Lifetime, r.o.Now))
			if err != nil {
				return err
			}
			signed[hash] = token
			if err := keyring.PutDeployment(filepath.Join(dir, BundleFile), token, d.manifest); err != nil {
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

// ends reports whether less than half of a deployment certificate's lifetime is left, by its own end and by the
// manifest's greatest age.
func (r *Registrar) ends(d *deployment, token string) bool {
	c, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), token)
	if err != nil {
		return true
	}
	issued := time.Unix(c.IssuedAt, 0)
	return r.o.Now().After(issued.Add(d.strict.Until(c).Sub(issued) / 2))
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
