package evidence

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// algMLDSA65 is the algorithm of the second, post-quantum signature (RFC 9964, FIPS 204; empty context).
const algMLDSA65 = "ML-DSA-65"

const separator = "~"

// Countersign signs the claims of a root's token again, with an ML-DSA-65 key of the same kid. It returns "<JWS by
// Ed25519>~<JWS by ML-DSA-65>".
func Countersign[C any](ctx context.Context, key Key, k Kind[C], token string) (string, error) {
	if !k.rooted() {
		return "", refusal.New("artifact_malformed", "a %s is signed with Ed25519 alone and gets no second signature",
			k.Typ)
	}
	p, err := parse(token, k.alg, k.Typ, k.maxToken)
	if err != nil {
		return "", err
	}
	if p.header.Kid != key.KeyID() {
		return "", refusal.New("signature_invalid",
			"the %s is signed by key %s, so key %s cannot add the second signature", k.Typ, p.header.Kid, key.KeyID())
	}
	head, err := encodeHeader(header{Alg: algMLDSA65, Kid: key.KeyID(), Typ: k.Typ})
	if err != nil {
		return "", err
	}
	input := signingInput(head, p.payload)
	sig, err := key.Sign(ctx, input)
	if err != nil {
		return "", fmt.Errorf("sign %s again with key %s: %w", k.Typ, key.KeyID(), err)
	}
	if len(sig) != mldsa65.SignatureSize {
		return "", fmt.Errorf("sign %s again: key %s made a signature of %d bytes, and ML-DSA-65 makes %d", k.Typ,
			key.KeyID(), len(sig), mldsa65.SignatureSize)
	}
	return token + separator + signed(input, sig), nil
}

func parseRooted(token, typ string, limit int) (parsed, error) {
	if len(token) > limit {
		return parsed{}, errTooLarge(token, typ, limit)
	}
	first, second, twice := strings.Cut(token, separator)
	p, err := parse(first, algEdDSA, typ, limit)
	if err == nil && twice && second == "" {
		err = refusal.New("artifact_malformed", "the %s announces a second signature but has none", typ)
	}
	p.second = second
	return p, err
}

// verify demands every signature that r must have made. Without a pinned post-quantum key only the form of a second
// signature counts, so that the security team can sign twice before everyone pins that key.
func (r Root) verify(typ string, p parsed, requirePostQuantum bool) error {
	kid := p.header.Kid
	switch {
	case !verify(r.Public, p):
		return errSignature(typ, kid)
	case r.PostQuantum == nil && requirePostQuantum:
		return refusal.New("roots_not_pinned",
			"the policy demands a post-quantum signature of the %s, but no post-quantum key is pinned for key %s", typ,
			kid)
	case r.PostQuantum != nil && p.second == "":
		return refusal.New("signature_invalid",
			"the %s needs a post-quantum signature too, because a post-quantum key is pinned for key %s", typ, kid)
	case p.second == "":
		return nil
	}
	second, err := parse(p.second, algMLDSA65, typ, len(p.second)) // already bounded with the first
	if err != nil {
		return err
	}
	switch {
	case second.header.Kid != kid:
		return refusal.New("signature_invalid",
			"the first signature of the %s is by key %s, but the second is by key %.80q", typ, kid, second.header.Kid)
	case !bytes.Equal(second.payload, p.payload):
		return refusal.New("artifact_malformed",
			"the two signatures of the %s by key %s are for different claims", typ, kid)
	case r.PostQuantum != nil && !verifyPostQuantum(r.PostQuantum, second):
		return refusal.New("signature_invalid", "the post-quantum signature of the %s by key %s is wrong", typ, kid)
	}
	return nil
}

func verifyPostQuantum(public *mldsa65.PublicKey, p parsed) bool {
	return len(p.signature) == mldsa65.SignatureSize && mldsa65.Verify(public, []byte(p.signed), nil, p.signature)
}

// AKP is the JWK of an ML-DSA-65 public key (RFC 9964).
type AKP struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	KeyType   string `json:"kty"`
	Public    string `json:"pub"` // base64url of 1,952 bytes
	Use       string `json:"use,omitempty"`
}

// NewAKP makes the JWK of an ML-DSA-65 key.
func NewAKP(kid string, public *mldsa65.PublicKey) AKP {
	return AKP{Algorithm: algMLDSA65, KeyID: kid, KeyType: "AKP",
		Public: base64.RawURLEncoding.EncodeToString(public.Bytes()), Use: "sig"}
}

// Key returns the public key. It refuses a zero t1, for which anyone can sign.
func (j AKP) Key() (*mldsa65.PublicKey, error) {
	raw, err := decodeStrict(j.Public)
	if err != nil || j.KeyType != "AKP" || j.Algorithm != algMLDSA65 || j.KeyID == "" || len(j.KeyID) > maxKeyID ||
		len(raw) != mldsa65.PublicKeySize {
		return nil, refusal.New("trust_malformed",
			"the JWK must be a public ML-DSA-65 key of %d bytes (kty AKP) with a kid", mldsa65.PublicKeySize)
	}
	const seed = 32 // of rho, before t1
	if bytes.Count(raw[seed:], []byte{0}) == len(raw)-seed {
		return nil, refusal.New("trust_malformed", "the ML-DSA-65 public key is degenerate")
	}
	var key mldsa65.PublicKey
	if err := key.UnmarshalBinary(raw); err != nil {
		return nil, refusal.New("trust_malformed", "the ML-DSA-65 public key is malformed: %v", err)
	}
	return &key, nil
}

// ParseRoot reads a root's public Ed25519 JWK, or a JWK Set of that and its ML-DSA-65 key, both with one kid.
func ParseRoot(raw []byte, purpose string) (Root, error) {
	r := Root{Purpose: purpose}
	if err := checkJWKSize(raw); err != nil {
		return r, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return r, refusal.New("trust_malformed", "the file is neither a JWK nor a JWK Set: %v", err)
	}
	var err error
	switch len(set.Keys) {
	case 0:
		r.KeyID, r.Public, err = ParseJWK(raw)
		return r, err
	case 2:
	default:
		return r, refusal.New("trust_malformed",
			"this set has %d keys; to pin a root, give one Ed25519 key, or a set of one Ed25519 and one ML-DSA-65 key",
			len(set.Keys))
	}
	if r.KeyID, r.Public, err = ParseJWK(set.Keys[0]); err != nil {
		return r, err
	}
	var second AKP
	if err := strictjson.Parse(set.Keys[1], &second); err != nil {
		return r, refusal.New("trust_malformed",
			"the second key of the set is not the public JWK of an ML-DSA-65 key: %v", err)
	}
	if second.KeyID != r.KeyID {
		return r, refusal.New("trust_malformed", "the two keys of a root must share a kid, not %.80q and %.80q",
			r.KeyID, second.KeyID)
	}
	r.PostQuantum, err = second.Key()
	return r, err
}
