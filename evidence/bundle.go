package evidence

import (
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Bundle is everything that the security team signs for verifiers. It is public, and trusted for its signatures alone.
type Bundle struct {
	Certificates          []string `json:"certificates"` // signer custody certificates
	DeploymentCertificate string   `json:"deploymentCertificate"`
	Revocations           string   `json:"revocations,omitempty"` // empty if nothing was ever revoked
	// History tells where the history beside the bundle ended; nil without one. Verifiers of records refuse a shorter
	// history, which has lost files.
	History *HistoryEnd `json:"history,omitempty"`
}

// HistoryEnd is the number of the last segment, from 1, and of texts in it.
type HistoryEnd struct {
	Segment int `json:"segment"`
	Texts   int `json:"texts"`
}

// Bounds on a bundle.
const (
	MaxBundle       = 8 << 20 // bytes
	MaxCertificates = 1024
	MaxRevocations  = 256 << 10 // bytes of the revocation list
)

// ParseBundle verifies nothing: see [NewTrust].
func ParseBundle(raw []byte) (b Bundle, err error) {
	if len(raw) > MaxBundle {
		return b, refusal.New("trust_malformed", "the trust bundle has %d bytes; at most %d are read", len(raw),
			MaxBundle)
	}
	b, err = ParseAnyBundle(raw)
	if n := len(b.Certificates); err == nil && n > MaxCertificates {
		return Bundle{}, refusal.New("trust_malformed", "the trust bundle holds %d certificates; at most %d are read",
			n, MaxCertificates)
	}
	return b, err
}

// ParseAnyBundle is [ParseBundle] without bounds, for the key registry and for verifiers of records.
func ParseAnyBundle(raw []byte) (b Bundle, err error) {
	if err := strictjson.Parse(raw, &b); err != nil {
		return Bundle{}, refusal.New("trust_malformed", "the trust bundle is malformed: %v", err)
	}
	return b, nil
}

// Full returns the used part of the tightest bound: 1 is full.
func (b Bundle) Full() float64 {
	size := len(b.DeploymentCertificate) + len(b.Revocations)
	for _, token := range b.Certificates {
		size += len(token) + len(`    "",`+"\n")
	}
	return max(float64(len(b.Certificates))/MaxCertificates, float64(size)/MaxBundle,
		float64(len(b.Revocations))/MaxRevocations)
}

const (
	// by jti
	RevokedArtifact = "artifact"
	// one version by kid, all versions by name, or by NAME also the keys NAME/OWN that each process has for itself
	RevokedKey = "key"
)

// RevocationList lists what verifiers must no longer accept. A verifier whose list has expired accepts nothing.
type RevocationList struct {
	Registered
	Revoked []Revocation `json:"revoked"`
}

// Revocation is one entry of a [RevocationList].
type Revocation struct {
	// Expires is when the key or artifact expires anyway: the entry may then be removed. Verifiers honour every entry.
	Expires int64  `json:"exp"`
	ID      string `json:"id"`   // jti, kid or key name
	Kind    string `json:"kind"` // RevokedArtifact or RevokedKey
	Reason  string `json:"reason"`
}

func (c *RevocationList) check() error {
	if c.Revoked == nil { // an empty list has one spelling: []
		return refusal.New("artifact_malformed", "the %s lacks the member revoked, a list: write an empty list as []",
			revocationList.Typ)
	}
	return checkRevocations(revocationList.Typ, c.Revoked)
}

func checkRevocations(typ string, entries []Revocation) error {
	for _, r := range entries {
		if r.Kind != RevokedArtifact && r.Kind != RevokedKey || r.Expires <= 0 || len(r.ID) > maxKeyID ||
			len(r.Reason) > maxName {
			return refusal.New("artifact_malformed",
				"the entry %.80q of the %s has an unknown kind, no expiry (exp), or an id or reason of over %d bytes",
				r.ID, typ, maxName)
		}
	}
	return nil
}

type revocations struct {
	list      RevocationList
	kid       string // of the registry key that signed it
	artifacts map[string]Revocation
	keys      map[string]Revocation
}

// has reports whether a key is revoked. A nil list revokes nothing.
func (r *revocations) has(kid string) bool {
	if r == nil {
		return false
	}
	return slices.ContainsFunc(RevocableNames(kid), func(name string) bool { _, ok := r.keys[name]; return ok })
}

// RevocableNames returns the ids by which a key is revoked: its kid, its name and, of the name NAME/OWN, NAME.
func RevocableNames(kid string) []string {
	name := KeyName(kid)
	if i := strings.LastIndex(name, "/"); i > 0 {
		return []string{kid, name, name[:i]}
	}
	return []string{kid, name}
}

func (t *Trust) openRevocations(token string) (*revocations, error) {
	list, kid, err := verifyRooted(t, revocationList, token, t.policy.RequirePostQuantum)
	if err != nil {
		return nil, err
	}
	r := &revocations{list: *list, kid: kid, artifacts: make(map[string]Revocation), keys: make(map[string]Revocation)}
	r.include(list.Revoked)
	return r, nil
}

// of returns the entries of a kind, by id.
func (r *revocations) of(kind string) map[string]Revocation {
	if kind == RevokedKey {
		return r.keys
	}
	return r.artifacts
}

func (r *revocations) include(entries []Revocation) {
	for _, e := range entries { // of two kinds: see checkRevocations
		r.of(e.Kind)[e.ID] = e
	}
}

// Revocations returns false if the bundle has no list.
func (t *Trust) Revocations() (RevocationList, bool) {
	if t.revocations == nil {
		return RevocationList{}, false
	}
	return t.revocations.list, true
}

// Succeeds refuses t as the successor of old if t undoes a revocation or a retirement. Call it before
// [Verifier.SetTrust].
func (t *Trust) Succeeds(old *Trust) error {
	if !t.revocations.succeed(old.revocations) {
		return refusal.New("revocations_rolled_back",
			"the new trust bundle has no revocation list, or an older list than the current bundle's")
	}
	for kid := range t.signers {
		if newest, retired := old.Retired(kid); retired {
			return refusal.New("revocations_rolled_back",
				"the trust bundle certifies key %s, a version that was retired; the key's current version is %d", kid,
				newest)
		}
	}
	return nil
}

// RevocationsUntil returns when a verifier stops to accept anything. ok is false without a revocation list.
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

// Retired reports whether only later versions of kid's key are certified.
func (t *Trust) Retired(kid string) (newest int, retired bool) {
	name, version := cutKeyID(kid)
	newest = t.newest[name]
	return newest, t.signers[kid] == nil && 0 < version && version < newest
}

func (r *revocations) succeed(old *revocations) bool {
	switch {
	case old == nil:
		return true
	case r == nil || r.list.IssuedAt != old.list.IssuedAt:
		return r != nil && r.list.IssuedAt > old.list.IssuedAt
	}
	for _, e := range old.list.Revoked { // times are whole seconds: within one second, the later list is the longer one
		if _, ok := r.of(e.Kind)[e.ID]; !ok {
			return false
		}
	}
	return true
}

// notRevoked refuses everything while the list itself is not valid.
func (t *Trust) notRevoked(what, kid string, ids []string, at moment) error {
	r := t.revocations
	if r == nil {
		if t.policy.MaxRevocationAge > 0 {
			return refusal.New("revocations_stale",
				"the policy demands a revocation list, but the trust bundle has none")
		}
		return nil
	}
	want := t.policy.Expected
	if t.policy.MaxRevocationAge > 0 {
		want.MaxAge = t.policy.MaxRevocationAge
	}
	want.Custody, want.RequireNonExportable = nil, false // the policy is for certified keys, not for the registry's own
	if issued := time.Unix(r.list.IssuedAt, 0); t.past && at.now.Before(issued) {
		at.now = issued // a list made after the moment also revokes
	}
	if err := want.admits(revocationList.Typ, r.kid, r.list.Registered, KeyClaims{}, at); err != nil {
		return refusal.New("revocations_stale", "the revocations are unknown: %w", err)
	}
	for _, name := range RevocableNames(kid) {
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

// NotRevoked refuses revoked keys and artifacts that were opened earlier. what names them.
func (v *Verifier) NotRevoked(what, kid string, ids ...string) error {
	return v.Trust().notRevoked(what, kid, ids, v.moment())
}
