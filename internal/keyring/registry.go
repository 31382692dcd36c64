// Package keyring does the security team's work on keys: root keys, certificates for the keys that processes publish,
// revocation, and the certificate of a deployment.
//
//	rootkey.go     the root keys of the key registry and of the deployment auditor, in a file
//	rootcustody.go root keys that Vault or a PKCS #11 token holds
//	versions.go    what is known of each version of each key
//	published.go   what processes publish of their keys
//	registry.go    the key registry: custody certificates in the trust bundle
//	bundle.go      the files of the bundle and of its history
//	follow.go      a registry that runs on and certifies new versions
//	rotate.go      rotation of keys, and retirement of versions that sign no more
//	revoke.go      the revocation list
//	deployment.go  the deployment certificate
package keyring

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"reflect"
	"slices"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/daemon"
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

// Declaration is what the security team declares about the keys that it certifies.
type Declaration struct{ AccessibleToAgent, AccessibleToUsers bool }

// certify gives each accepted version of each role's key a custody certificate. A certificate that stands stays as it is, byte for
// byte: records rest on it. What is replaced goes to the history. A revocation list is signed again.
func (e *bundleEdit) certify(ctx context.Context, p Published, say Declaration) (done Certification, err error) {
	if p.Roles, err = e.withoutRetired(p.Roles); err != nil {
		return done, err
	}
	before := e.b.Certificates
	tokens, err := e.certificates(ctx, p, say)
	if err != nil {
		return done, err
	}
	others, err := e.remaining(p.Roles)
	if err != nil {
		return done, err
	}
	e.b.Certificates = append(tokens, others...)
	for _, token := range e.b.Certificates {
		if slices.Contains(before, token) {
			done.Kept++
		} else {
			done.Certified++
		}
	}
	done.Dropped = len(before) - done.Kept
	if e.b.Revocations != "" {
		if e.b.Revocations, _, err = e.revoke(ctx, nil); err != nil {
			return done, err
		}
	}
	done.Forgotten, err = e.rememberCertificates(ctx, before)
	return done, err
}

// withoutRetired removes retired key versions from roles. A version is retired if the bundle has later versions of its key
// and not this one. It stays retired if a process publishes it again: a process that knows of the retirement would
// refuse a bundle that certifies the version.
func (e *bundleEdit) withoutRetired(roles []daemon.RoleDocument) ([]daemon.RoleDocument, error) {
	out := slices.Clone(roles)
	for i, r := range out {
		newest := 0
		out[i].Keys = slices.DeleteFunc(slices.Clone(e.withoutSuperseded(r.Keys)), func(k jose.JSONWebKey) (retired bool) {
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

// superseded is for how long a later version of a key has to be certified before the versions before it get no
// certificate any more. Nothing that they signed is good for so long: the bundle does not grow with each rotation,
// whether or not somebody retires the versions in their custody.
const superseded = time.Hour

// withoutSuperseded removes the key versions that a later one has superseded. Versions are published oldest first.
func (e *bundleEdit) withoutSuperseded(keys []jose.JSONWebKey) []jose.JSONWebKey {
	certified := make(map[string]bool) // for long enough
	for _, c := range e.trust.Certified() {
		issued := time.Unix(c.Certificate.IssuedAt, 0)
		certified[c.Certificate.SubjectKeyID] = !c.Revoked && !e.Options.Now().Before(issued.Add(superseded))
	}
	for i, k := range slices.Backward(keys) {
		if certified[k.KeyID] {
			return keys[i:]
		}
	}
	return keys
}

// certificates returns a certificate for each key of p: the one that the bundle has, if it stands, or a new one.
func (e *bundleEdit) certificates(ctx context.Context, p Published, say Declaration) ([]string, error) {
	issuer, err := signer.New(evidence.SignerCertificateKind, e.Key, e.Options)
	if err != nil {
		return nil, err
	}
	var tokens []string
	for _, r := range p.Roles {
		if r.Unread != nil {
			continue // remaining keeps the certificates of its key
		}
		claim, err := claims(r, p.Observations, say)
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
			token, stands := e.standing(c)
			if !stands {
				if token, _, err = issuer.Sign(ctx, c); err != nil {
					return nil, fmt.Errorf("certify key %s: %w", kid, err)
				}
			}
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// standing returns the bundle's certificate that says what c says, if it is not revoked, and neither due for renewal nor good for longer
// than what is signed now.
func (e *bundleEdit) standing(c evidence.SignerCertificate) (token string, stands bool) {
	for _, old := range e.trust.Certified() {
		said := old.Certificate
		if said.SubjectKeyID != c.SubjectKeyID {
			continue
		}
		longer := time.Unix(said.Expires, 0).After(e.Options.Now().Add(e.Options.Lifetime))
		if e.due(said) || longer || said.Issuer != e.Options.Issuer || said.Audience != e.Options.Audience || e.revokes(evidence.RevokedArtifact, said.ID) {
			return "", false
		}
		said.Registered = c.Registered
		observed := slices.Equal(said.Observed, c.Observed)
		said.Observed = c.Observed // none is an empty list or no list
		return old.Token, observed && reflect.DeepEqual(said, c)
	}
	return "", false
}

// due reports whether half of a certificate's lifetime is over.
func (e *bundleEdit) due(c evidence.SignerCertificate) bool {
	return time.Unix(c.Expires, 0).Before(e.Options.Now().Add(e.Options.Lifetime / 2))
}

// claims makes the claims about a role's key: what its process knows, what was observed, and what is declared. It
// refuses a claim that an observation contradicts.
func claims(r daemon.RoleDocument, observations []observe.Observation, say Declaration) (evidence.SignerCertificate, error) {
	c := evidence.SignerCertificate{
		AccessibleToAgent: say.AccessibleToAgent, AccessibleToUsers: say.AccessibleToUsers, KeyCustody: r.KeyCustody, KeyExportable: r.KeyExportable,
		Observed: slices.Clone(r.Observed), Purposes: []string{r.Purpose}, SubjectIssuer: r.Issuer,
	}
	if apart, against := policy.Apart(r.Purpose, observations); apart == observe.Contradicts {
		return c, refusal.New("deployment_contradicted", "no key of the role %s is certified for it alone: %s", r.Purpose, against)
	}
	reach, against := policy.OutOfReach(r.Purpose, observations)
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

// remaining returns the certificates of the bundle that stay beside those for the keys of roles: certificates of other
// keys that have not expired. A version that its process no longer publishes is retired, and gets no certificate.
func (e *bundleEdit) remaining(roles []daemon.RoleDocument) ([]string, error) {
	asked := keyNames(roles)
	var kept []string
	for _, token := range e.b.Certificates {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind, token) // editBundle has verified all of them
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
				cert.KeyCustody != r.KeyCustody || cert.KeyExportable != r.KeyExportable || e.due(cert) {
				return true
			}
		}
	}
	return published != len(certified)
}

// Certification is what [Registry.Certify] has done: how many certificates are new, how many stay in the bundle, how many the bundle
// has no more, and how many of the oldest the history has no more.
type Certification struct{ Certified, Kept, Dropped, Forgotten int }

// Certify gives each published version of each key a custody certificate: the one that the bundle has, if it still says what is to be
// said and half of its lifetime is not over, or a new one.
func (r *Registry) Certify(ctx context.Context, p Published, say Declaration) (done Certification, err error) {
	err = r.editBundle(func(e *bundleEdit) (err error) {
		done, err = e.certify(ctx, p, say)
		return err
	})
	return done, err
}
