package vectors_test

import (
	"crypto/sha512"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
)

// Ed25519 (RFC 8032 section 5.1): the field, and the order of the base point.
var (
	fieldOrder = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	groupOrder = func() *big.Int {
		tail, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
		return tail.Add(tail, new(big.Int).Lsh(big.NewInt(1), 252))
	}()
)

func number(littleEndian []byte) *big.Int {
	b := slices.Clone(littleEndian)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func bytes32(n *big.Int) []byte {
	b := n.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	return b
}

// plusOrder2 adds the point of order 2: (x, y) becomes (-x, -y).
func plusOrder2(point []byte) []byte {
	b := slices.Clone(point)
	sign := b[31] & 0x80
	b[31] &^= 0x80
	b = bytes32(new(big.Int).Sub(fieldOrder, number(b)))
	b[31] |= sign ^ 0x80
	return b
}

// handmade signs as RFC 8032 section 5.1.6 does, with a chosen R. odd selects the parity of the hash that multiplies
// the public key.
func handmade(k key, message string, public []byte, commitment func(r []byte) []byte) (signature []byte, odd bool) {
	h := sha512.Sum512(k.private.Seed())
	h[0] &= 248
	h[31] = h[31]&127 | 64
	nonce := sha512.Sum512(append(slices.Clone(h[32:]), message...))
	plain := ed25519.Sign(k.private, []byte(message)) // R is the nonce times the base point
	r := commitment(plain[:32])
	n := number(nonce[:])
	if !slices.Equal(r, plain[:32]) && !slices.Equal(r, plusOrder2(plain[:32])) {
		n.SetInt64(0)
	}
	hash := sha512.Sum512(slices.Concat(r, public, []byte(message)))
	challenge := new(big.Int).Mod(number(hash[:]), groupOrder)
	s := n.Add(n, new(big.Int).Mul(challenge, number(h[:32])))
	return append(slices.Clone(r), bytes32(s.Mod(s, groupOrder))...), challenge.Bit(0) == 1
}

func same(r []byte) []byte { return r }

// signatureVectors have signatures about which Ed25519 libraries disagree.
func (d deployment) signatureVectors() []artifactVector {
	proof := d.roles[evidence.PurposeRequestProof]
	k, typ := proof.key, evidence.RequestProofKind().Typ
	header := `{"alg":"EdDSA","kid":"` + k.kid + `","typ":"` + typ + `"}`
	vector := func(name, code, payload string, sign func(string) []byte) artifactVector {
		return artifactVector{Name: "signature, " + name, Typ: typ, Token: token{header, payload, sign}.String(),
			Verdict: code}
	}
	by := func(public []byte, commitment func([]byte) []byte) func(string) []byte {
		return func(input string) []byte {
			signature, _ := handmade(k, input, public, commitment)
			return signature
		}
	}
	notReduced := func(input string) []byte {
		plain := ed25519.Sign(k.private, []byte(input))
		s := number(plain[32:])
		return append(plain[:32:32], bytes32(s.Add(s, groupOrder))...)
	}
	identity := new(big.Int).Add(fieldOrder, big.NewInt(1)) // 1, not reduced
	public := k.public()
	out := []artifactVector{
		vector("made by hand", "ok", d.proofClaims(), by(public, same)),
		vector("with an S that is not reduced", "signature_invalid", d.proofClaims(), notReduced),
		vector("with an R that is not reduced", "signature_invalid", d.proofClaims(), by(public, func([]byte) []byte {
			return bytes32(identity)
		})),
		vector("right but for a cofactor, in R", "signature_invalid", d.proofClaims(), by(public, plusOrder2)),
		vector("of 65 bytes", "signature_invalid", d.proofClaims(), func(input string) []byte {
			return append(k.signer()(input), 0)
		}),
	}
	// 16384 bytes, with a surplus in the signature
	for n, code := range []string{"signature_invalid", "artifact_malformed"} {
		v := out[0]
		v.Name, v.Verdict = "signature, so long that the token has "+strconv.Itoa(16384+n)+" bytes", code
		v.Token += strings.Repeat("A", 16384+n-len(v.Token))
		out = append(out, v)
	}
	// The certified key is the signer's plus the point of order 2: the hash decides.
	mixed := plusOrder2(public)
	trust := d.trust()
	trust.Certificates = []string{
		d.certificate(proof,
			map[string]any{"subjectPublicKey": b64.EncodeToString(mixed), "subjectPublicKeyHash": evidence.HashBytes(mixed)})}
	for _, row := range []struct {
		name, code string
		odd        bool
	}{{"right but for a cofactor, in the key", "signature_invalid", true},
		{"right without a cofactor, by a key that has one", "ok", false}} {
		for i := 0; ; i++ {
			v := vector(row.name, row.code, with(d.proofClaims(), map[string]any{"jti": "proof-" + strconv.Itoa(i)}),
				by(mixed, same))
			if _, odd := handmade(k, v.Token[:strings.LastIndex(v.Token, ".")], mixed, same); odd == row.odd {
				v.Trust = &trust
				out = append(out, v)
				break
			}
		}
	}
	off := bytes32(big.NewInt(2)) // no x belongs to this y
	none := d.trust()
	none.Certificates = []string{
		d.certificate(proof,
			map[string]any{"subjectPublicKey": b64.EncodeToString(off), "subjectPublicKeyHash": evidence.HashBytes(off)})}
	v := vector("by a key that is no point", "signature_invalid", d.proofClaims(), k.signer())
	v.Trust = &none
	return append(out, v)
}
