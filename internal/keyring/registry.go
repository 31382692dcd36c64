// Package keyring does the security team's work on keys: root keys, certificates for the keys that processes publish,
// revocation, and the certificate of a deployment.
package keyring

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// Registry is the key registry: its root key, the options for its signatures, and the trust bundle that it writes.
type Registry struct {
	Key     RootKey
	Options signer.Options
	Bundle  string // path
	// FromCustody says that the versions of shared keys were read in their custody, perhaps before the newest version
	// was made. Then a version is retired only by a publication with a later one, and no version ever changes its key.
	// Else processes say what they are: see agreed.
	FromCustody bool
}

// NewRegistry makes a registry that signs with key.
func NewRegistry(key RootKey, o signer.Options, bundle string) *Registry {
	return &Registry{Key: key, Options: key.options(o), Bundle: bundle}
}

// Declaration is what the security team declares about the keys that it certifies.
type Declaration struct{ AccessibleToAgent, AccessibleToUsers bool }

// Certify is a [Registry.Edit] with nothing but [Edit.Certify].
func (r *Registry) Certify(ctx context.Context, p Published, say Declaration) (Edited, error) {
	return r.Edit(ctx, func(e *Edit) error { return e.Certify(ctx, p, say) })
}

// Certify gives each published key version that needs one a custody certificate, and signs the revocation list again.
// A valid certificate stays byte for byte, because records rest on it.
func (e *Edit) Certify(ctx context.Context, p Published, say Declaration) (err error) {
	if p.Roles, err = e.wanted(p.Roles); err != nil {
		return err
	}
	tokens, err := e.certificates(ctx, p, say)
	if err != nil {
		return err
	}
	certified := make(map[string]bool)
	for _, token := range tokens {
		certified[subject(token)] = true
	}
	for _, token := range e.remaining(p.Roles) {
		if !certified[subject(token)] {
			tokens = append(tokens, token)
		}
	}
	e.b.Certificates = append([]string{}, tokens...) // an empty list is [], and not null
	if e.b.Revocations != "" && e.stopped == nil {
		_, e.stopped = e.renewList(ctx, nil)
	}
	return nil
}

// certificates returns the valid certificate of each key version of p, or a new one. Once a signature has failed it
// returns only certificates of the bundle.
func (e *Edit) certificates(ctx context.Context, p Published, say Declaration) (tokens []string, err error) {
	issuer, err := signer.New(evidence.SignerCertificateKind(), e.Key, e.Options)
	if err != nil {
		return nil, err
	}
	all, err := subjects(p, say)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if err := e.copied(c, all); err != nil {
			return nil, err
		}
		if old, ok := e.certified[c.SubjectKeyID]; e.FromCustody && ok && !strings.Contains(c.SubjectKeyID, "/") &&
			old.Certificate.SubjectPublicKeyHash != c.SubjectPublicKeyHash {
			return nil, refusal.New("custody_unfit", "the key of %s in custody is not the certified one: rotate "+
				"past that version, and retire the earlier ones", c.SubjectKeyID)
		}
		token, stands := e.standing(c)
		if !stands && e.stopped == nil {
			if e.stopped = ctx.Err(); e.stopped == nil {
				token, _, e.stopped = issuer.Sign(ctx, c)
			}
			if e.stopped != nil {
				e.stopped = fmt.Errorf("certify key %s: %w", c.SubjectKeyID, e.stopped)
			}
		}
		if !stands && e.stopped != nil {
			e.done.Left++
			if old := e.certified[c.SubjectKeyID]; old.Certificate.SubjectPublicKeyHash == c.SubjectPublicKeyHash {
				token = old.Token
			}
		}
		if token != "" {
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// Processes that share a key publish it several times.
func subjects(p Published, say Declaration) (all []evidence.SignerCertificate, err error) {
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
			c.SubjectKeyID, c.SubjectPublicKey, c.SubjectPublicKeyHash = kid, evidence.EncodePublicKey(public),
				evidence.HashBytes(public)
			if !slices.ContainsFunc(all, func(o evidence.SignerCertificate) bool { return reflect.DeepEqual(o, c) }) {
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// copied refuses another role's public key: any process can publish it, and verifiers would then refuse both roles.
func (e *Edit) copied(c evidence.SignerCertificate, all []evidence.SignerCertificate) error {
	for _, o := range e.certified {
		all = append(all, o.Certificate)
	}
	for _, o := range all {
		if o.SubjectPublicKeyHash == c.SubjectPublicKeyHash && o.Purposes[0] != c.Purposes[0] &&
			o.SubjectKeyID != c.SubjectKeyID {
			return refusal.New("key_purpose", "the key %s has the same public key as %s, which is for %s",
				c.SubjectKeyID, o.SubjectKeyID,
				o.Purposes[0])
		}
	}
	return nil
}

// standing returns the bundle's certificate with the claims of c, unless it is revoked, due for renewal, or good for
// longer than a new one.
func (e *Edit) standing(c evidence.SignerCertificate) (token string, stands bool) {
	old, ok := e.certified[c.SubjectKeyID]
	said := old.Certificate
	longer := time.Unix(said.Expires, 0).After(e.Options.Now().Add(e.Options.Lifetime))
	if !ok || e.due(said) || longer || said.Issuer != e.Options.Issuer || said.Audience != e.Options.Audience ||
		e.Revokes(evidence.RevokedArtifact, said.ID) {
		return "", false
	}
	said.Registered = c.Registered
	observed := slices.Equal(said.Observed, c.Observed)
	said.Observed = c.Observed // none is an empty list or no list
	return old.Token, observed && reflect.DeepEqual(said, c)
}

func (e *Edit) due(c evidence.SignerCertificate) bool {
	return time.Unix(c.Expires, 0).Before(e.Options.Now().Add(e.Options.Lifetime / 2))
}

func claims(r daemon.RoleDocument, observations []look.Observation, say Declaration) (evidence.SignerCertificate,
	error) {
	c := evidence.SignerCertificate{
		AccessibleToAgent: say.AccessibleToAgent, AccessibleToUsers: say.AccessibleToUsers, KeyCustody: r.KeyCustody,
		KeyExportable: r.KeyExportable, Purposes: []string{r.Purpose}, SubjectIssuer: r.Issuer,
	}
	// no process observes who reaches a key from elsewhere
	for _, name := range []string{"keyCustody", "keyExportable"} {
		if slices.Contains(r.Observed, name) {
			c.Observed = append(c.Observed, name)
		}
	}
	if apart, against := policy.Apart(r.Purpose, observations); apart == look.Contradicts {
		return c, refusal.New("deployment_contradicted",
			"no key of the role %s is certified, because its process can use other keys too: %s", r.Purpose,
			against)
	}
	reach, against := policy.OutOfReach(r.Purpose, observations)
	switch {
	case say.AccessibleToAgent: // the certificate declares the worse case already
	case reach == look.Contradicts:
		return c, refusal.New("deployment_contradicted",
			"the key of the role %s cannot be certified as inaccessible to the agent: %s", r.Purpose, against)
	case reach == look.Holds:
		c.Observed = append(c.Observed, "accessibleToAgent")
		slices.Sort(c.Observed)
	}
	return c, nil
}

// remaining returns the bundle's certificates of keys that the roles do not have, unless they have expired. A version
// of the roles' keys that its process no longer publishes is retired. Once signing has failed, all certificates stay.
func (e *Edit) remaining(roles []daemon.RoleDocument) (kept []string) {
	newest := make(map[string]int) // published version, by key name
	for _, r := range roles {
		for _, k := range r.Keys {
			name := evidence.KeyName(k.KeyID)
			newest[name] = max(newest[name], evidence.KeyVersion(k.KeyID))
		}
	}
	for _, token := range e.before {
		c := claimsOf(token)
		of, asked := newest[evidence.KeyName(c.SubjectKeyID)]
		others := !asked || e.FromCustody && evidence.KeyVersion(c.SubjectKeyID) > of
		if e.stopped != nil || others && e.Options.Now().Before(time.Unix(c.Expires, 0)) {
			kept = append(kept, token)
		}
	}
	return kept
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

// Needed reports whether roles have to be certified: a version is new or gone, a property has changed, or half of a
// lifetime is over.
func (e *Edit) Needed(roles []daemon.RoleDocument) (bool, error) {
	roles, err := e.wanted(roles)
	if err != nil {
		return false, err
	}
	certified, asked := 0, keyNames(roles)
	for kid := range e.certified {
		if asked[evidence.KeyName(kid)] {
			certified++
		}
	}
	published := make(map[string]bool)
	for _, r := range roles {
		for _, k := range r.Keys {
			published[k.KeyID] = true
			c, ok := e.certified[k.KeyID]
			cert := c.Certificate
			public, _ := k.Key.(ed25519.PublicKey)
			if !ok || string(public) != string(c.Public) || cert.Purposes[0] != r.Purpose ||
				cert.SubjectIssuer != r.Issuer ||
				cert.KeyCustody != r.KeyCustody || cert.KeyExportable != r.KeyExportable || e.due(cert) {
				return true, nil
			}
		}
	}
	return len(published) != certified, nil
}
