// Package keyring is the work of the security team on keys: root keys, the certification of what processes publish, revocation, and the
// certificate of a deployment.
//
//	rootkey.go     the root keys of the key registry and of the deployment auditor, in a file
//	rootcustody.go root keys that Vault or a PKCS #11 token holds
//	published.go   what processes publish of their keys
//	registry.go    the key registry: custody certificates in the trust bundle
//	follow.go      the registry that goes on and certifies new versions
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

// Registry is the key registry: its root key, how it signs, and the trust bundle that it keeps.
type Registry struct {
	Key     RootKey
	Options signer.Options
	Bundle  string // path
}

// NewRegistry makes the registry whose root key is key.
func NewRegistry(key RootKey, o signer.Options, bundle string) *Registry {
	return &Registry{key, key.options(o), bundle}
}

// edit is a change of the registry's bundle, whose earlier content has been verified to be the registry's own.
type edit struct {
	*Registry
	b     *evidence.Bundle
	trust *evidence.Trust
}

// change makes do change the bundle. It refuses a bundle with certificates of another registry: to sign them, or to leave some of them out,
// would be to answer for what has not been checked.
func (r *Registry) change(do func(*edit) error) error {
	return UpdateBundle(r.Bundle, func(b *evidence.Bundle) error {
		trust, err := evidence.NewTrust([]evidence.Root{r.Key.Pinned(evidence.PurposeSignerCertificate)}, *b, evidence.SignerPolicy{})
		if err != nil {
			return fmt.Errorf("%s is not all signed by %s; move it away first, and certify every process and the deployment again: %w", r.Bundle, r.Key.KeyID(), err)
		}
		return do(&edit{r, b, trust})
	})
}

// UpdateBundle changes the trust bundle, one process at a time, so that none undoes what another has done.
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

// Declared is what the security team declares of the keys that it certifies.
type Declared struct{ AccessibleToAgent, AccessibleToUsers bool }

// certify signs a custody certificate for each accepted version of each role's key, in place of those that the bundle has of these keys. A
// revocation list is signed anew with them. It returns how many certificates are new and how many stay.
func (e *edit) certify(ctx context.Context, p Published, say Declared) (fresh, kept int, err error) {
	if p.Roles, err = e.unretired(p.Roles); err != nil {
		return 0, 0, err
	}
	tokens, err := e.certificates(ctx, p, say)
	if err != nil {
		return 0, 0, err
	}
	others, err := e.keep(p.Roles)
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

// unretired leaves out the versions that the bundle has later ones of and not them: they were retired, whoever publishes them again, and a
// process that has seen that takes no bundle which certifies one.
func (e *edit) unretired(roles []daemon.RoleDocument) ([]daemon.RoleDocument, error) {
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

func (e *edit) certificates(ctx context.Context, p Published, say Declared) ([]string, error) {
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

// claims says of the role's key what its process knows, what was seen of it, and what is declared. What was seen to be false is not
// certified.
func claims(r daemon.RoleDocument, looks []observe.Look, say Declared) (evidence.SignerCertificate, error) {
	c := evidence.SignerCertificate{
		AccessibleToAgent: say.AccessibleToAgent, AccessibleToUsers: say.AccessibleToUsers, KeyCustody: r.KeyCustody, KeyExportable: r.KeyExportable,
		Observed: slices.Clone(r.Observed), Purposes: []string{r.Purpose}, SubjectIssuer: r.Issuer,
	}
	if apart, against := policy.Apart(r.Purpose, looks); apart == observe.Contradicts {
		return c, refusal.New("deployment_contradicted", "no key of the role %s is certified for it alone: %s", r.Purpose, against)
	}
	reach, against := policy.OutOfReach(r.Purpose, looks)
	switch {
	case say.AccessibleToAgent: // declared worse than it may be
	case reach == observe.Contradicts:
		return c, refusal.New("deployment_contradicted", "the key of the role %s is not certified to be out of the agent's reach: %s", r.Purpose, against)
	case reach == observe.Holds:
		c.Observed = append(c.Observed, "accessibleToAgent")
		slices.Sort(c.Observed)
	}
	return c, nil
}

// keep returns those of the bundle's certificates that still count beside new ones for the keys of roles: of other keys, and not
// expired. What a process no longer publishes of a key of its own is a retired version.
func (e *edit) keep(roles []daemon.RoleDocument) ([]string, error) {
	asked := keyNames(roles)
	var kept []string
	for _, token := range e.b.Certificates {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token) // work has verified all of them
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

// due tells whether the bundle's certificates of the roles' keys have to be made anew: a version has come or gone, what its process says of
// it has changed, or half of a certificate's lifetime is over.
func (e *edit) due(roles []daemon.RoleDocument) bool {
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

// Certification is what [Registry.Certify] has done to a bundle's certificates.
type Certification struct{ Certified, Stay, LeftOut int }

// Certify signs a custody certificate for each version of each key that is published, in place of those that the bundle has of these keys.
// Before that, prepare may change the bundle; nil changes nothing.
func (r *Registry) Certify(ctx context.Context, p Published, say Declared, prepare func(*evidence.Bundle)) (done Certification, err error) {
	err = r.change(func(e *edit) (err error) {
		if prepare != nil {
			prepare(e.b)
		}
		before := len(e.b.Certificates)
		done.Certified, done.Stay, err = e.certify(ctx, p, say)
		done.LeftOut = before - done.Stay
		return err
	})
	return done, err
}
