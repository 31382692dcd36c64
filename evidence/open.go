package evidence

import (
	"bytes"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/internal/refusal"
)

// Opened is an artifact that this process has opened or signed: its signature is good, and its token and claims never
// change. The zero value is refused as missing.
type Opened[C any] struct {
	token  string
	typ    string
	kid    string
	public ed25519.PublicKey // the key that verified the signature; nil if Judge must verify again
	claims *C
}

// Token returns the compact JWS as it was received or signed.
func (o Opened[C]) Token() string { return o.token }

// KeyID returns the kid of the signing key version.
func (o Opened[C]) KeyID() string { return o.kid }

// Hash returns [HashToken] of the token.
func (o Opened[C]) Hash() string { return HashToken(o.token) }

// Claims returns the claims, whose lists must not be modified.
func (o Opened[C]) Claims() C {
	if o.claims == nil {
		var none C
		return none
	}
	return *o.claims
}

// Open verifies one artifact completely, but does not compare its claims with the post.
func Open[C any](v *Verifier, k Kind[C], token string, want Expected) (Opened[C], error) {
	o, err := open(v.Trust(), k, token, want, v.moment())
	if err != nil {
		return Opened[C]{}, err
	}
	return o, nil
}

func open[C any](trust *Trust, k Kind[C], token string, want Expected, at moment) (o Opened[C], err error) {
	switch {
	case k.alg != algEdDSA:
		return o, refusal.New("artifact_malformed", "a %s cannot be verified with a public key", k.Typ)
	case len(want.Secrets) > 0:
		return openShared(trust, k, token, want, at)
	case k.rooted():
		return openRooted(trust, k, token, want, at)
	}
	p, err := parse(token, k.alg, k.Typ, k.maxToken)
	if err != nil {
		return o, err
	}
	s, err := k.signer(trust, p.header.Kid, want, at)
	if err != nil {
		return o, err
	}
	if !verify(s.public, p) {
		return o, errSignature(k.Typ, p.header.Kid)
	}
	o = Opened[C]{token: token, typ: k.Typ, kid: p.header.Kid, public: s.public}
	if o.claims, err = decode(k, p.payload); err != nil {
		return o, err
	}
	return o, k.admits(trust, s, o, want, at)
}

// openRooted opens an artifact of a pinned root key, which has no certificate: pinning vouches for its custody.
func openRooted[C any](trust *Trust, k Kind[C], token string, want Expected, at moment) (o Opened[C], err error) {
	claims, kid, err := verifyRooted(trust, k, token, want.RequirePostQuantum)
	if err != nil {
		return o, err
	}
	o = Opened[C]{token: token, typ: k.Typ, kid: kid, claims: claims}
	r := *k.registered(claims)
	if err := trust.notRevoked(k.Typ, kid, []string{r.ID}, at); err != nil {
		return o, err
	}
	want.Custody, want.RequireNonExportable = nil, false
	return o, want.admits(k.Typ, kid, r, KeyClaims{}, at)
}

// verifyRooted checks neither times nor revocations.
func verifyRooted[C any](trust *Trust, k Kind[C], token string, postQuantum bool) (claims *C, kid string, err error) {
	p, err := parseRooted(token, k.Typ, k.maxToken)
	if err != nil {
		return nil, "", err
	}
	root, err := trust.root(p.header.Kid, k.Typ, k.Purpose)
	if err != nil {
		return nil, "", err
	}
	if err := root.verify(k.Typ, p, postQuantum); err != nil {
		return nil, "", err
	}
	claims, err = decode(k, p.payload)
	return claims, p.header.Kid, err
}

// Judge checks an opened artifact against the current trust, clock and policy. It refuses what [Open] would refuse,
// with the same code, except a wrong signature by an [OwnKey]. It verifies a root's or a shared secret's signature
// again, because that depends on the trust.
func Judge[C any](v *Verifier, k Kind[C], o Opened[C], want Expected) error {
	if o.public == nil || k.rooted() || len(want.Secrets) > 0 {
		_, err := Open(v, k, o.token, want)
		return err
	}
	if o.typ != k.Typ {
		return refusal.New("artifact_malformed", "a token of type %.60q was given where a %s is needed", o.typ, k.Typ)
	}
	trust, at := v.Trust(), v.moment()
	s, err := k.signer(trust, o.kid, want, at)
	if err != nil {
		return err
	}
	if !bytes.Equal(s.public, o.public) {
		return errSignature(k.Typ, o.kid) // another key now has this id
	}
	return k.admits(trust, s, o, want, at)
}

func (k Kind[C]) signer(trust *Trust, kid string, want Expected, at moment) (*certified, error) {
	if want.RequirePostQuantum {
		return nil, refusal.New("roots_not_pinned",
			"the policy demands a second, post-quantum signature on the %s, but a token of this type can have only one",
			k.Typ)
	}
	return trust.signer(kid, k.Typ, k.Purpose, at)
}

func errSignature(typ, kid string) error {
	return refusal.New("signature_invalid", "the signature of the %s by key %s is wrong", typ, kid)
}

// admits checks an artifact whose signature by s is verified.
func (k Kind[C]) admits(trust *Trust, s *certified, o Opened[C], want Expected, at moment) error {
	r, key := *k.registered(o.claims), s.cert.key()
	if err := trust.notRevoked(k.Typ, o.kid, []string{r.ID}, at); err != nil {
		return err
	}
	if r.Issuer != s.cert.SubjectIssuer {
		return refusal.New("key_purpose", "the %s claims issuer %q, but key %s is certified for issuer %q", k.Typ,
			r.Issuer, o.kid, s.cert.SubjectIssuer)
	}
	if k.custody != nil && *k.custody(o.claims) != key {
		return refusal.New("key_custody",
			"the %s and the custody certificate of key %s disagree about the key's custody", k.Typ, o.kid)
	}
	return want.admits(k.Typ, o.kid, r, key, at)
}
