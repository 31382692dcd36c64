package evidence

import (
	"bytes"
	"crypto/subtle"
	"iter"
	"maps"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"

	"github.com/actionproof/mediator/internal/refusal"
)

// Root is a pinned public key: the key registry's or the deployment auditor's.
type Root struct {
	KeyID   string
	Public  ed25519.PublicKey
	Purpose string // one of the roots' purposes
	// If pinned, every artifact of the root also needs its signature.
	PostQuantum *mldsa65.PublicKey
}

// SignerPolicy is what custody certificates must satisfy.
type SignerPolicy struct {
	Expected
	DenyAgentAccessible, DenyUserAccessible bool
	// MaxRevocationAge demands a revocation list no older than this. With zero, a list in the bundle still counts.
	MaxRevocationAge time.Duration
}

type certified struct {
	token  string
	public ed25519.PublicKey
	cert   SignerCertificate
	kid    string // of the registry key that signed the certificate
	what   string // names the certificate in refusals
	shared bool   // another certificate certifies this public key for another purpose
}

// Trust is an immutable snapshot of the pinned roots and the certified keys.
type Trust struct {
	roots   map[string]Root
	signers map[string]*certified // by kid
	newest  map[string]int        // the highest certified version, by key name
	policy  SignerPolicy

	revocations *revocations // nil where the bundle has no list
	past        bool         // for records: the moment may precede the revocation list
	// find replaces signers and newest for records.
	find func(kid string) (*certified, int, error)
}

// NewTrust verifies the signature of each certificate. One bad certificate fails the whole bundle. Two for one key id
// must have the same key; the later one counts. [Open] checks lifetime and policy each time it uses a key. The
// deployment certificate is opened elsewhere.
func NewTrust(roots []Root, b Bundle, policy SignerPolicy) (*Trust, error) {
	t, err := newTrust(roots, policy)
	if err != nil {
		return nil, err
	}
	for _, token := range b.Certificates {
		if err := t.add(token); err != nil {
			return nil, err
		}
	}
	markShared(maps.Values(t.signers))
	if b.Revocations != "" {
		if t.revocations, err = t.openRevocations(b.Revocations); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func newTrust(roots []Root, policy SignerPolicy) (*Trust, error) {
	t := &Trust{roots: make(map[string]Root, len(roots)), signers: make(map[string]*certified),
		newest: make(map[string]int), policy: policy}
	for _, r := range roots {
		if !isRoot(r.Purpose) {
			return nil, refusal.New("trust_malformed", "the root key %s has purpose %q, which is not a root's purpose",
				r.KeyID, r.Purpose)
		}
		if _, ok := t.roots[r.KeyID]; ok {
			return nil, refusal.New("trust_malformed", "the root key id %.80q is pinned twice", r.KeyID)
		}
		if _, err := NewPublicKey(r.Public); err != nil {
			return nil, err
		}
		if other, ok := t.pinned(r.Public); ok {
			return nil, refusal.New("trust_malformed", "the roots %.80q and %.80q are pinned with one public key",
				other, r.KeyID)
		}
		t.roots[r.KeyID] = r
	}
	return t, nil
}

func (t *Trust) pinned(public ed25519.PublicKey) (kid string, ok bool) {
	for kid, r := range t.roots {
		if bytes.Equal(r.Public, public) {
			return kid, true
		}
	}
	return "", false
}

// Registries returns the pinned roots that certify signers.
func (t *Trust) Registries() (keys []ed25519.PublicKey) {
	for _, r := range t.roots {
		if r.Purpose == PurposeSignerCertificate {
			keys = append(keys, r.Public)
		}
	}
	return keys
}

// markShared marks public keys that are certified for several purposes: their holder could act as several witnesses.
func markShared(signers iter.Seq[*certified]) {
	first := make(map[string]*certified)
	for s := range signers {
		switch other := first[string(s.public)]; {
		case other == nil:
			first[string(s.public)] = s
		case other.cert.Purposes[0] != s.cert.Purposes[0]:
			other.shared, s.shared = true, true
		}
	}
	for s := range signers {
		s.shared = s.shared || first[string(s.public)].shared
	}
}

func (t *Trust) add(token string) error {
	s, err := t.openCertificate(token)
	if err != nil {
		return err
	}
	kid := s.cert.SubjectKeyID
	if old, ok := t.signers[kid]; ok {
		if subtle.ConstantTimeCompare(old.public, s.public) != 1 {
			return refusal.New("key_unknown", "two certificates have the same key id, %s, but different public keys",
				kid)
		}
		if old.cert.IssuedAt > s.cert.IssuedAt {
			return nil
		}
	}
	name, version := cutKeyID(kid)
	t.newest[name] = max(t.newest[name], version)
	t.signers[kid] = s
	return nil
}

func (t *Trust) openCertificate(token string) (*certified, error) {
	p, err := parseRooted(token, signerCertificate.Typ, signerCertificate.maxToken)
	if err != nil {
		return nil, err
	}
	root := t.roots[p.header.Kid]
	if root.Purpose != PurposeSignerCertificate { // or there is no such root
		return nil, refusal.New("key_unknown",
			"a signer custody certificate is signed by key %.80q, which is not a pinned registry key", p.header.Kid)
	}
	if err := root.verify(signerCertificate.Typ, p, t.policy.RequirePostQuantum); err != nil {
		return nil, err
	}
	cert, err := decode(signerCertificate, p.payload)
	if err != nil {
		return nil, err
	}
	// Otherwise the registry could make itself an auditor: policies may allow keys by name.
	if purpose := cert.Purposes[0]; isRoot(purpose) {
		return nil, refusal.New("key_unknown",
			"the certificate of key %s makes it a root, but only pinning a key can make it one", cert.SubjectKeyID)
	}
	raw, err := decodeStrict(cert.SubjectPublicKey)
	if err != nil {
		return nil, refusal.New("key_unknown", "the certificate of key %s does not hold a base64url public key",
			cert.SubjectKeyID)
	}
	public, err := NewPublicKey(raw)
	if err != nil {
		return nil, err
	}
	if HashBytes(public) != cert.SubjectPublicKeyHash {
		return nil, refusal.New("key_unknown", "in the certificate of key %s, the public key does not match its hash",
			cert.SubjectKeyID)
	}
	if _, isRoot := t.roots[cert.SubjectKeyID]; isRoot {
		return nil, refusal.New("key_unknown",
			"a certificate is for key %s, which is a pinned root and cannot be certified", cert.SubjectKeyID)
	}
	if root, ok := t.pinned(public); ok {
		return nil, refusal.New("key_unknown", "the certificate of key %s is for the public key of the pinned root %s",
			cert.SubjectKeyID, root)
	}
	return &certified{token: token, public: public, cert: *cert, kid: p.header.Kid,
		what: "custody certificate of key " + cert.SubjectKeyID}, nil
}

// Certified is a key version with its verified certificate.
type Certified struct {
	Token       string // of the certificate
	Certificate SignerCertificate
	Public      ed25519.PublicKey
	Revoked     bool // by the bundle's revocation list
}

// Certified includes revoked keys. The order is random.
func (t *Trust) Certified() []Certified {
	out := make([]Certified, 0, len(t.signers))
	for kid, s := range t.signers {
		out = append(out, Certified{Token: s.token, Certificate: s.cert, Public: s.public,
			Revoked: t.revocations.has(kid)})
	}
	return out
}

func (t *Trust) root(kid, typ, purpose string) (Root, error) {
	r, ok := t.roots[kid]
	if !ok {
		if s, _, _ := t.certified(kid); s == nil {
			return r, refusal.New("key_unknown", "the %s is signed by key %.80q, which is not pinned", typ, kid)
		}
		return r, refusal.New("key_purpose",
			"the %s is signed by key %s, which is certified for a role and is not a root", typ, kid)
	}
	if r.Purpose != purpose {
		return r, refusal.New("key_purpose", "the %s is signed by the root key %s, which is pinned only for %s", typ,
			kid, r.Purpose)
	}
	return r, nil
}

// certified returns a key's certificate, or nil, and its newest version.
func (t *Trust) certified(kid string) (*certified, int, error) {
	if t.find != nil {
		return t.find(kid)
	}
	name, _ := cutKeyID(kid)
	return t.signers[kid], t.newest[name], nil
}

// signer returns the key if it is certified now, within the policy.
func (t *Trust) signer(kid, typ, purpose string, at moment) (*certified, error) {
	if err := t.notRevoked(typ, kid, nil, at); err != nil {
		return nil, err
	}
	s, newest, err := t.certified(kid)
	if err != nil {
		return nil, err
	}
	if r, isRoot := t.roots[kid]; isRoot {
		return nil, refusal.New("key_purpose", "the %s is signed by the root key %s, which is pinned only for %s", typ,
			kid, r.Purpose)
	}
	if s == nil {
		_, version := cutKeyID(kid)
		switch {
		case 0 < version && version < newest:
			return nil, refusal.New("key_retired",
				"the %s is signed by key %s, which no longer has a custody certificate; only version %d has one", typ,
				kid, newest)
		case 0 < newest && newest < version:
			return nil, refusal.New("key_unknown", "the %s is signed by key %.80q, %w", typ, kid, errNewer)
		}
		return nil, refusal.New("key_unknown",
			"the %s is signed by key %.80q, for which there is no custody certificate", typ, kid)
	}
	c := &s.cert
	if err := t.notRevoked(signerCertificate.Typ, s.kid, []string{c.ID}, at); err != nil {
		return nil, err
	}
	if c.Purposes[0] != purpose {
		return nil, refusal.New("key_purpose", "the %s is signed by key %s, which is certified for %s and not for %s",
			typ, kid, c.Purposes[0], purpose)
	}
	if s.shared {
		return nil, refusal.New("key_purpose",
			"the %s is signed by key %s, and the same key is certified for another purpose too", typ, kid)
	}
	if err := t.policy.admits(s.what, s.kid, c.Registered, c.key(), at); err != nil {
		return nil, err
	}
	switch {
	case t.policy.DenyAgentAccessible && c.AccessibleToAgent:
		return nil, refusal.New("key_custody", "the %s says that the agent can reach the key", s.what)
	case t.policy.DenyUserAccessible && c.AccessibleToUsers:
		return nil, refusal.New("key_custody", "the %s says that users can reach the key", s.what)
	}
	return s, nil
}

// Signed reports whether the root with a purpose signed a token. Use it only to find the token's pair of roots: it
// checks neither times nor claims.
func (t *Trust) Signed(purpose, typ, token string) bool {
	p, err := parseRooted(token, typ, maxToken)
	if err != nil {
		return false
	}
	root, ok := t.roots[p.header.Kid]
	return ok && root.Purpose == purpose && root.verify(typ, p, false) == nil
}
