package evidence

import (
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Bundle is the trust bundle: everything that the security team signed for verifiers, and nothing secret. It is believed for its
// signatures alone, whoever delivers it.
type Bundle struct {
	Certificates          []string `json:"certificates"` // signer custody certificates
	DeploymentCertificate string   `json:"deploymentCertificate"`
	Revocations           string   `json:"revocations,omitempty"` // the revocation list; empty where nothing was ever revoked
	// History is how far the history beside the bundle reached when the bundle was written; nil where there was none.
	// Verifiers of records refuse a history that ends before: files of it were lost, or are older copies.
	History *HistoryEnd `json:"history,omitempty"`
}

// HistoryEnd is the number of the last segment of a history, from 1 on, and how many texts that segment had.
type HistoryEnd struct {
	Segment int `json:"segment"`
	Texts   int `json:"texts"`
}

// Bounds of a trust bundle as it travels.
const (
	MaxBundle       = 8 << 20 // bytes
	MaxCertificates = 1024
	MaxRevocations  = 256 << 10 // bytes of the revocation list
)

// ParseBundle reads one strict JSON bundle, with nothing verified: [NewTrust] does. It refuses a bundle that is over a bound.
func ParseBundle(raw []byte) (Bundle, error) {
	if len(raw) > MaxBundle {
		return Bundle{}, refusal.New("trust_malformed", "the trust bundle has %d bytes; at most %d are read", len(raw), MaxBundle)
	}
	b, err := ParseAnyBundle(raw)
	if n := len(b.Certificates); err == nil && n > MaxCertificates {
		return Bundle{}, refusal.New("trust_malformed", "the trust bundle holds %d certificates; at most %d are read", n, MaxCertificates)
	}
	return b, err
}

// ParseAnyBundle is [ParseBundle] without bounds: for the key registry, which makes a bundle smaller, and for verifiers of records.
func ParseAnyBundle(raw []byte) (b Bundle, err error) {
	if err := strictjson.Parse(raw, &b); err != nil {
		return Bundle{}, refusal.New("trust_malformed", "the trust bundle is malformed: %v", err)
	}
	return b, nil
}

// Full returns how full a bundle is, from 0 to 1: by its certificates, its bytes, or its revocation list, whichever is the most.
func (b Bundle) Full() float64 {
	size := len(b.DeploymentCertificate) + len(b.Revocations)
	for _, token := range b.Certificates {
		size += len(token) + len(`    "",`+"\n")
	}
	return max(float64(len(b.Certificates))/MaxCertificates, float64(size)/MaxBundle, float64(len(b.Revocations))/MaxRevocations)
}

// What a revocation list revokes.
const (
	// RevokedArtifact is one artifact, by its jti: a grant, a decision, a certificate, whatever its kind.
	RevokedArtifact = "artifact"
	// RevokedKey is a key, by its kid for one version or by its name for all of them.
	RevokedKey = "key"
)

// RevocationList is the key registry's word about what is no longer believed although its signatures and its times are right. A
// verifier takes it from the trust bundle; while the list is not within its own times, that verifier believes nothing.
type RevocationList struct {
	Registered
	Revoked []Revocation `json:"revoked"`
}

// Revocation is one entry of a [RevocationList].
type Revocation struct {
	// Expires is until when the entry has to stay, in Unix seconds: what it revokes has expired by itself then. Verifiers honour it for
	// as long as it stands in the list.
	Expires int64  `json:"exp"`
	ID      string `json:"id"`   // jti, kid or key name
	Kind    string `json:"kind"` // RevokedArtifact or RevokedKey
	Reason  string `json:"reason"`
}

func (c *RevocationList) check() error {
	if c.Revoked == nil { // a list of nothing is [], so that it has one spelling
		return refusal.New("artifact_malformed", "the %s has no list", RevocationListKind.Typ)
	}
	for _, r := range c.Revoked {
		if r.Kind != RevokedArtifact && r.Kind != RevokedKey || r.Expires <= 0 || len(r.ID) > maxKeyID || len(r.Reason) > maxName {
			return refusal.New("artifact_malformed", "the entry %.80q of the %s has an unknown kind, no end, or a text of over %d bytes", r.ID, RevocationListKind.Typ, maxName)
		}
		if err := checkClaims(RevocationListKind.Typ, texts{"revoked.id", r.ID, "revoked.reason", r.Reason}, nil); err != nil {
			return err
		}
	}
	return nil
}

// revocations is a verified list, by what it revokes.
type revocations struct {
	list      RevocationList
	kid       string // of the registry key that signed it
	artifacts map[string]Revocation
	keys      map[string]Revocation
}

// has is whether a key is revoked, by its kid or by its name. No list revokes nothing.
func (r *revocations) has(kid string) bool {
	if r == nil {
		return false
	}
	_, version := r.keys[kid]
	_, name := r.keys[KeyName(kid)]
	return version || name
}

// openRevocations verifies the signature of a revocation list by a pinned registry key.
func (t *Trust) openRevocations(token string) (*revocations, error) {
	p, err := parseRooted(token, RevocationListKind.Typ, RevocationListKind.maxToken)
	if err != nil {
		return nil, err
	}
	root, err := t.root(p.header.Kid, RevocationListKind.Typ, RevocationListKind.Purpose)
	if err != nil {
		return nil, err
	}
	if err := root.verify(RevocationListKind.Typ, p, t.policy.RequirePostQuantum); err != nil {
		return nil, err
	}
	list, err := decode(RevocationListKind, p.payload)
	if err != nil {
		return nil, err
	}
	r := &revocations{list: *list, kid: p.header.Kid, artifacts: make(map[string]Revocation), keys: make(map[string]Revocation)}
	r.include(list.Revoked)
	return r, nil
}

// include adds entries to what r revokes.
func (r *revocations) include(entries []Revocation) {
	for _, e := range entries {
		switch e.Kind {
		case RevokedArtifact:
			r.artifacts[e.ID] = e
		case RevokedKey:
			r.keys[e.ID] = e
		}
	}
}

// Revocations returns the bundle's revocation list, and false where it has none.
func (t *Trust) Revocations() (RevocationList, bool) {
	if t.revocations == nil {
		return RevocationList{}, false
	}
	return t.revocations.list, true
}

// Succeeds refuses to put t in force after old if that would take back what has been revoked or retired: if t has no revocation list, an
// older one, or one of the same second with less in it, or if it certifies a version of a key that old had later versions of, and no longer
// this one. Who reads a bundle again asks this before [Verifier.SetTrust].
func (t *Trust) Succeeds(old *Trust) error {
	if !t.revocations.succeed(old.revocations) {
		return refusal.New("revocations_rolled_back", "the trust bundle has no revocation list, or an older one than the bundle in force")
	}
	for kid := range t.signers {
		if newest, retired := old.Retired(kid); retired {
			return refusal.New("revocations_rolled_back", "the trust bundle certifies key %s, which was retired: version %d of it is in force", kid, newest)
		}
	}
	return nil
}

// RevocationsUntil returns when the revocation list ends, after which nothing is believed. ok is false if there is none.
func (t *Trust) RevocationsUntil() (until time.Time, ok bool) {
	if t.revocations == nil {
		return time.Time{}, false
	}
	list := t.revocations.list
	until = time.Unix(list.Expires, 0)
	if age := t.policy.MaxRevocationAge; age > 0 && time.Unix(list.IssuedAt, 0).Add(age).Before(until) {
		until = time.Unix(list.IssuedAt, 0).Add(age)
	}
	return until, true
}

// Retired reports whether t has later versions of a key and not this one any more, and the latest of them.
func (t *Trust) Retired(kid string) (newest int, retired bool) {
	name, version := cutKeyID(kid)
	newest = t.newest[name]
	return newest, t.signers[kid] == nil && 0 < version && version < newest
}

// succeed reports whether r takes back nothing of old.
func (r *revocations) succeed(old *revocations) bool {
	switch {
	case old == nil:
		return true
	case r == nil || r.list.IssuedAt != old.list.IssuedAt:
		return r != nil && r.list.IssuedAt > old.list.IssuedAt
	}
	for _, e := range old.list.Revoked { // times are whole seconds: of two lists, the one with more in it is the later one
		of := r.artifacts
		if e.Kind == RevokedKey {
			of = r.keys
		}
		if _, ok := of[e.ID]; !ok {
			return false
		}
	}
	return true
}

// notRevoked refuses a key or an artifact that is revoked, and everything while the list itself cannot be believed.
func (t *Trust) notRevoked(what, kid string, ids []string, at moment) error {
	r := t.revocations
	if r == nil {
		if t.policy.MaxRevocationAge > 0 {
			return refusal.New("revocations_stale", "the policy demands a revocation list, and the trust bundle has none")
		}
		return nil
	}
	want := t.policy.Expected
	if t.policy.MaxRevocationAge > 0 {
		want.MaxAge = t.policy.MaxRevocationAge
	}
	want.Custody, want.RequireNonExportable = nil, false // about the keys of certificates, not about the registry's own
	if issued := time.Unix(r.list.IssuedAt, 0); t.past && at.now.Before(issued) {
		at.now = issued // what has been revoked since is what a later list is for
	}
	if err := want.admits(RevocationListKind.Typ, r.kid, r.list.Registered, KeyClaims{}, at); err != nil {
		return refusal.New("revocations_stale", "what is revoked is not known: %w", err)
	}
	for _, name := range []string{kid, KeyName(kid)} {
		if e, ok := r.keys[name]; ok {
			return refusal.New("revoked", "the %s rests on key %s, which is revoked: %s", what, kid, e.Reason)
		}
	}
	for _, id := range ids {
		if e, ok := r.artifacts[id]; ok {
			return refusal.New("revoked", "the %s %s is revoked: %s", what, id, e.Reason)
		}
	}
	return nil
}

// NotRevoked refuses if kid or one of the artifact ids is revoked, for those who keep ids of artifacts that they have opened before.
// what names in a refusal what rests on them.
func (v *Verifier) NotRevoked(what, kid string, ids ...string) error {
	return v.Trust().notRevoked(what, kid, ids, v.moment())
}
