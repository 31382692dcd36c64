// Package keyring does the security team's work on keys: root keys, certificates for the keys that processes publish,
// revocation, and the certificate of a deployment.
//
//	rootkey.go     the root keys of the key registry and of the deployment auditor, in a file
//	rootcustody.go root keys that Vault or a PKCS #11 token holds
//	published.go   what processes publish of their keys
//	registry.go    the key registry: custody certificates in the trust bundle
//	follow.go      a registry that runs on and certifies new versions
//	revoke.go      the revocation list
//	deployment.go  the deployment certificate
package keyring

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// Registry is the key registry: its root key, the options for its signatures, and the trust bundle that it writes.
type Registry struct {
	Key     RootKey
	Options signer.Options
	Bundle  string // path
}

// NewRegistry makes a registry that signs with key.
func NewRegistry(key RootKey, o signer.Options, bundle string) *Registry {
	return &Registry{key, key.options(o), bundle}
}

// bundleEdit is a change of the registry's bundle. The earlier content of the bundle has been verified as signed by the
// registry.
type bundleEdit struct {
	*Registry
	b     *evidence.Bundle
	trust *evidence.Trust
}

// editBundle lets do change the bundle. It refuses a bundle with certificates of another registry: to write the bundle is
// to answer for its content, which this registry has not checked.
func (r *Registry) editBundle(do func(*bundleEdit) error) error {
	return UpdateBundle(r.Bundle, func(b *evidence.Bundle) error {
		trust, err := evidence.NewTrust([]evidence.Root{r.Key.Pinned(evidence.PurposeSignerCertificate)}, *b, evidence.SignerPolicy{})
		if err != nil {
			return fmt.Errorf("%s is not all signed by %s; move it away first, and certify every process and the deployment again: %w", r.Bundle, r.Key.KeyID(), err)
		}
		return do(&bundleEdit{r, b, trust})
	})
}

// UpdateBundle changes the trust bundle under a lock, so that no process undoes the change of another.
func UpdateBundle(path string, change func(*evidence.Bundle) error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	b, before, err := config.ReadBundle(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := change(&b); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(b, "", "  ")
	if raw = append(raw, '\n'); err != nil || bytes.Equal(raw, before) {
		return err
	}
	return files.Replace(path, raw, 0o644)
}

// Declaration is what the security team declares about the keys that it certifies.
type Declaration struct{ AccessibleToAgent, AccessibleToUsers bool }

// certify signs a custody certificate for each accepted version of each role's key. The new certificates replace those
// that the bundle has for these keys. A revocation list is signed again too. certify returns how many certificates are
// new and how many stay.
func (e *bundleEdit) certify(ctx context.Context, p Published, say Declaration) (fresh, kept int, err error) {
	if p.Roles, err = e.withoutRetired(p.Roles); err != nil {
		return 0, 0, err
	}
	tokens, err := e.certificates(ctx, p, say)
	if err != nil {
		return 0, 0, err
	}
	others, err := e.remaining(p.Roles)
	if err != nil {
		return 0, 0, err
	}
	if e.b.Revocations != "" {
		if e.b.Revocations, _, err = e.revoke(ctx, nil); err != nil {
			return 0, 0, err
		}
	}
	e.b.Certificates = append(tokens, others...)
	return len(tokens), len(others), nil
}

// withoutRetired removes retired key versions from roles. A version is retired if the bundle has later versions of its key
// and not this one. It stays retired if a process publishes it again: a process that knows of the retirement would
// refuse a bundle that certifies the version.
func (e *bundleEdit) withoutRetired(roles []daemon.RoleDocument) ([]daemon.RoleDocument, error) {
	out := slices.Clone(roles)
	for i, r := range out {
		newest := 0
		out[i].Keys = slices.DeleteFunc(slices.Clone(r.Keys), func(k jose.JSONWebKey) (retired bool) {
			newest, retired = e.trust.Retired(k.KeyID)
			return retired
		})
		if len(out[i].Keys) == 0 && newest > 0 {
			return nil, refusal.New("key_retired", "what %s is signed with, %s, was retired: version %d is in force. Rotate the key past that; or, where it is another key of that name, "+
				"move %s away, certify every process and the deployment again, and restart the processes", r.Purpose, r.Keys[len(r.Keys)-1].KeyID, newest, e.Bundle)
		}
	}
	return out, nil
}

func (e *bundleEdit) certificates(ctx context.Context, p Published, say Declaration) ([]string, error) {
	issuer, err := signer.New(evidence.SignerCertificateKind, e.Key, e.Options)
	if err != nil {
		return nil, err
	}
	var tokens []string
	for _, r := range p.Roles {
		claim, err := claims(r, p.Looks, say)
		if err != nil {
			return nil, err
		}
		for _, jwk := range r.Keys {
			raw, err := jwk.MarshalJSON()
			if err != nil {
				return nil, err
			}
			kid, public, err := evidence.ParseJWK(raw)
			if err != nil {
				return nil, err
			}
			c := claim
			c.SubjectKeyID, c.SubjectPublicKey, c.SubjectPublicKeyHash = kid, evidence.EncodePublicKey(public), evidence.HashBytes(public)
			token, _, err := issuer.Sign(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("certify key %s: %w", kid, err)
			}
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// claims makes the claims about a role's key: what its process knows, what was observed, and what is declared. It
// refuses a claim that an observation contradicts.
func claims(r daemon.RoleDocument, looks []observe.Observation, say Declaration) (evidence.SignerCertificate, error) {
	c := evidence.SignerCertificate{
		AccessibleToAgent: say.AccessibleToAgent, AccessibleToUsers: say.AccessibleToUsers, KeyCustody: r.KeyCustody, KeyExportable: r.KeyExportable,
		Observed: slices.Clone(r.Observed), Purposes: []string{r.Purpose}, SubjectIssuer: r.Issuer,
	}
	if apart, against := policy.Apart(r.Purpose, looks); apart == observe.Contradicts {
		return c, refusal.New("deployment_contradicted", "no key of the role %s is certified for it alone: %s", r.Purpose, against)
	}
	reach, against := policy.OutOfReach(r.Purpose, looks)
	switch {
	case say.AccessibleToAgent: // the certificate declares the worse case already
	case reach == observe.Contradicts:
		return c, refusal.New("deployment_contradicted", "the key of the role %s is not certified to be out of the agent's reach: %s", r.Purpose, against)
	case reach == observe.Holds:
		c.Observed = append(c.Observed, "accessibleToAgent")
		slices.Sort(c.Observed)
	}
	return c, nil
}

// remaining returns the certificates of the bundle that stay beside new ones for the keys of roles: certificates of other
// keys that have not expired. A version that its process no longer publishes is retired, and gets no certificate.
func (e *bundleEdit) remaining(roles []daemon.RoleDocument) ([]string, error) {
	asked := keyNames(roles)
	var kept []string
	for _, token := range e.b.Certificates {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token) // change has verified all of them
		if err != nil {
			return nil, err
		}
		if !asked[evidence.KeyName(c.SubjectKeyID)] && e.Options.Now().Before(time.Unix(c.Expires, 0)) {
			kept = append(kept, token)
		}
	}
	return kept, nil
}

func keyNames(roles []daemon.RoleDocument) map[string]bool {
	names := make(map[string]bool)
	for _, role := range roles {
		for _, k := range role.Keys {
			names[evidence.KeyName(k.KeyID)] = true
		}
	}
	return names
}

// needsRenewal reports whether the bundle's certificates for the roles' keys have to be renewed: a version is new or gone, its
// process states other properties, or half of a certificate's lifetime is over.
func (e *bundleEdit) needsRenewal(roles []daemon.RoleDocument) bool {
	half := e.Options.Now().Add(e.Options.Lifetime / 2)
	certified := make(map[string]evidence.Certified)
	asked := keyNames(roles)
	for _, c := range e.trust.Certified() {
		if asked[evidence.KeyName(c.Certificate.SubjectKeyID)] {
			certified[c.Certificate.SubjectKeyID] = c
		}
	}
	published := 0
	for _, r := range roles {
		for _, k := range r.Keys {
			published++
			c, ok := certified[k.KeyID]
			cert := c.Certificate
			public, _ := k.Key.(ed25519.PublicKey)
			if !ok || string(public) != string(c.Public) || cert.Purposes[0] != r.Purpose || cert.SubjectIssuer != r.Issuer ||
				cert.KeyCustody != r.KeyCustody || cert.KeyExportable != r.KeyExportable || time.Unix(cert.Expires, 0).Before(half) {
				return true
			}
		}
	}
	return published != len(certified)
}

// Certification is what [Registry.Certify] has done: how many certificates are new, how many stay, and how many are
// gone.
type Certification struct{ Certified, Kept, Dropped int }

// Certify signs a custody certificate for each published version of each key. The new certificates replace those that
// the bundle has for these keys. If prepare is not nil, it changes the bundle before that.
func (r *Registry) Certify(ctx context.Context, p Published, say Declaration, prepare func(*evidence.Bundle)) (done Certification, err error) {
	err = r.editBundle(func(e *bundleEdit) (err error) {
		if prepare != nil {
			prepare(e.b)
		}
		before := len(e.b.Certificates)
		done.Certified, done.Kept, err = e.certify(ctx, p, say)
		done.Dropped = before - done.Kept
		return err
	})
	return done, err
}
