package evidence

import (
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// OpenMAC verifies a token of [SignMAC] that this verifier wrote to itself.
func OpenMAC[C any](s Secret, k Kind[C], token string, want Expected, now time.Time, skew time.Duration) (C, error) {
	var zero C
	if k.alg != algHS256 {
		return zero, refusal.New("artifact_malformed", "a %s cannot be verified with a shared secret", k.Typ)
	}
	if err := s.Check(); err != nil {
		return zero, err
	}
	p, err := parse(token, k.alg, k.Typ, k.maxToken)
	if err != nil {
		return zero, err
	}
	if !s.authenticates(p.signed, p.signature) {
		return zero, refusal.New("signature_invalid", "the %s was not issued by this verifier, or was altered", k.Typ)
	}
	c, err := decode(k, p.payload)
	if err != nil {
		return zero, err
	}
	want.KeyIDs, want.Custody, want.RequireNonExportable = []string{s.id}, nil, false
	if err := want.admits(k.Typ, p.header.Kid, *k.registered(c), KeyClaims{}, moment{now, skew}); err != nil {
		return zero, err
	}
	return *c, nil
}

func openShared[C any](trust *Trust, k Kind[C], token string, want Expected, at moment) (o Opened[C], err error) {
	if !k.shared {
		return o, refusal.New("artifact_malformed", "a %s is signed with a key of its own, never with a shared secret",
			k.Typ)
	}
	p, err := parse(token, algHS256, k.Typ, k.maxToken)
	if err != nil {
		return o, err
	}
	i := slices.IndexFunc(want.Secrets, func(s Secret) bool { return s.Check() == nil && s.id == p.header.Kid })
	if i < 0 {
		return o, refusal.New("key_unknown",
			"the %s is authenticated with the secret %.80q, which the policy does not hold", k.Typ, p.header.Kid)
	}
	s := want.Secrets[i]
	if trust.publishes(s) {
		return o, refusal.New("config_malformed",
			"the shared secret for the %s is a public key in the trust bundle, so anybody could know it", k.Typ)
	}
	if !s.authenticates(p.signed, p.signature) {
		return o, refusal.New("signature_invalid", "the %s is not authenticated with the shared secret %s", k.Typ, s.id)
	}
	c, err := decode(k, p.payload)
	if err != nil {
		return o, err
	}
	if *k.custody(c) != SharedSecret {
		return o, refusal.New("key_custody",
			"the %s is authenticated with a shared secret, but its keyCustody does not say so", k.Typ)
	}
	if err := trust.notRevoked(k.Typ, s.id, []string{k.registered(c).ID}, at); err != nil {
		return o, err
	}
	if err := want.admits(k.Typ, s.id, *k.registered(c), SharedSecret, at); err != nil {
		return o, err
	}
	return Opened[C]{token: token, typ: k.Typ, kid: s.id, claims: c}, nil
}

// publishes reports whether s is a public key in t, as bytes or as text.
func (t *Trust) publishes(s Secret) bool {
	same := func(key []byte) bool {
		text := base64.RawURLEncoding.EncodeToString(key)
		return subtle.ConstantTimeCompare(s.held(), key) == 1 || subtle.ConstantTimeCompare(s.held(), []byte(text)) == 1
	}
	for _, r := range t.roots {
		if same(r.Public) || r.PostQuantum != nil && same(r.PostQuantum.Bytes()) {
			return true
		}
	}
	for _, c := range t.signers {
		if same(c.public) {
			return true
		}
	}
	return false
}
