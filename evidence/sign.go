package evidence

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/internal/refusal"
)

// Key is one version of one signing key. The key itself may be anywhere: in memory, in Vault, in an HSM.
type Key interface {
	// KeyID returns the kid: "<key name>:v<version>".
	KeyID() string
	// Sign returns the signature of message: the 64 bytes of Ed25519 for [Sign], the 3,309 of ML-DSA-65 for [Countersign]. It must
	// honour ctx and must never sign an empty message.
	Sign(ctx context.Context, message []byte) ([]byte, error)
}

// OwnKey is a [Key] of this process's custody, which knows its public key. The custody answers for every signature: Sign
// returns one that Public verifies, or an error. This package does not verify it, and [Judge] believes it. So a signature
// that comes from outside the process, as from a server or a device, must be verified before Sign returns it.
type OwnKey interface {
	Key
	Public() ed25519.PublicKey
}

// Draft is an artifact that lacks nothing but its signature. Another one can rest on it, by its hash, before it is signed.
type Draft[C any] struct {
	typ    string
	key    OwnKey
	claims C
	input  []byte
}

// Prepare writes c as an artifact of kind k, to be signed with key. The caller has stamped the registered claims ([Kind.Stamp]).
// Prepare refuses claims that [Open] would refuse: their own check runs first.
func Prepare[C any](key OwnKey, k Kind[C], c C) (Draft[C], error) {
	input, err := k.input(key, &c)
	return Draft[C]{typ: k.Typ, key: key, claims: c, input: input}, err
}

// Hash returns what [HashToken] returns for the signed artifact.
func (d Draft[C]) Hash() string { return HashBytes(d.input) }

// Claims returns the claims that will be signed.
func (d Draft[C]) Claims() C { return d.claims }

// Sign signs it. Neither Sign nor [Judge] verifies the signature, for which the [OwnKey] answers.
func (d Draft[C]) Sign(ctx context.Context) (Opened[C], error) {
	token, err := sign(ctx, d.key, d.typ, d.input)
	if err != nil {
		return Opened[C]{}, err
	}
	return Opened[C]{token: token, typ: d.typ, kid: d.key.KeyID(), public: d.key.Public(), claims: &d.claims}, nil
}

// Sign writes c as an artifact of kind k, signed with key, and returns its token. It refuses what [Prepare] refuses.
func Sign[C any](ctx context.Context, key Key, k Kind[C], c C) (string, error) {
	input, err := k.input(key, &c)
	if err != nil {
		return "", err
	}
	return sign(ctx, key, k.Typ, input)
}

// input returns what is signed of c.
func (k Kind[C]) input(key Key, c *C) ([]byte, error) {
	if k.alg != algEdDSA {
		return nil, refusal.New("artifact_malformed", "a %s is not signed with a public-key signature", k.Typ)
	}
	return k.prepare(k.alg, key.KeyID(), c)
}

func sign(ctx context.Context, key Key, typ string, input []byte) (string, error) {
	sig, err := key.Sign(ctx, input)
	if err != nil {
		return "", fmt.Errorf("sign %s with key %s: %w", typ, key.KeyID(), err)
	}
	return signed(input, sig), nil
}

// SignShared is [SignMAC] for an artifact that this process carries on. [Judge] verifies it as if it had come from outside.
func SignShared[C any](s Secret, k Kind[C], c C) (Opened[C], error) {
	token, err := SignMAC(s, k, c)
	if err != nil {
		return Opened[C]{}, err
	}
	return Opened[C]{token: token, typ: k.Typ, kid: s.id, claims: &c}, nil
}

// SignMAC writes c as a token of kind k, authenticated with a secret (HS256): a token of a verifier to itself or, where the kind
// may be shared, an artifact for a verifier that holds the same secret and names it in [Expected]. The latter says of its key what is
// true of every shared secret ([SharedSecret]).
func SignMAC[C any](s Secret, k Kind[C], c C) (string, error) {
	switch {
	case k.alg == algHS256:
	case !k.shared:
		return "", refusal.New("artifact_malformed", "a %s is not authenticated with a shared secret", k.Typ)
	case *k.custody(&c) != SharedSecret:
		return "", refusal.New("key_custody", "the %s says of a shared secret what is not true of one", k.Typ)
	}
	if err := s.Check(); err != nil {
		return "", err
	}
	input, err := k.prepare(algHS256, s.id, &c)
	if err != nil {
		return "", err
	}
	return signed(input, s.mac(input)), nil
}

// prepare returns what is signed of c.
func (k Kind[C]) prepare(alg, kid string, c *C) ([]byte, error) {
	if err := k.registered(c).check(k.Typ, k.MaxLifetime); err != nil {
		return nil, err
	}
	if err := k.check(c); err != nil {
		return nil, err
	}
	head, err := encodeHeader(header{Alg: alg, Kid: kid, Typ: k.Typ})
	if err != nil {
		return nil, err
	}
	payload, err := k.codec.encode(c, 1024)
	if err != nil {
		return nil, err
	}
	return signingInput(head, payload), nil
}

// minSecret is the shortest shared secret, in bytes (RFC 7518 section 3.2: no shorter than the hash).
const minSecret = 32

var errShortSecret = refusal.New("config_malformed", "a shared secret must have at least %d bytes", minSecret)

// secretPrefix begins the key id of every secret. No custody certificate names a key so.
const secretPrefix = "mac:"

// IsSecretID reports whether kid is that of a secret.
func IsSecretID(kid string) bool { return strings.HasPrefix(kid, secretPrefix) }

// SharedSecret is what is true of every shared secret: whoever verifies with it can also sign with it.
var SharedSecret = KeyClaims{KeyCustody: "shared_secret", KeyExportable: true}

// Secret is a shared secret of at least 32 bytes. It prints as REDACTED; its zero value signs and opens nothing.
type Secret struct {
	id   string
	held func() []byte // fmt calls no method of a field that is not exported: it looks behind pointers, and not into functions
}

// NewSecret copies b. It refuses fewer than 32 bytes.
func NewSecret(b []byte) (Secret, error) {
	if len(b) < minSecret {
		return Secret{}, errShortSecret
	}
	b = bytes.Clone(b)
	s := Secret{held: func() []byte { return b }}
	// The kid tells two secrets apart across a rotation; it is a MAC, so it says nothing of the secret.
	s.id = secretPrefix + base64.RawURLEncoding.EncodeToString(s.mac([]byte("kid"))[:9])
	return s, nil
}

// KeyID returns the kid of what is authenticated with s, as a policy names it. It tells nothing of the secret.
func (s Secret) KeyID() string { return s.id }

// Check refuses a secret that [NewSecret] has not made.
func (s Secret) Check() error {
	if s.held == nil {
		return errShortSecret
	}
	return nil
}

func (s Secret) mac(input []byte) []byte {
	m := hmac.New(sha256.New, s.held())
	m.Write(input)
	return m.Sum(nil)
}

// authenticates reports whether mac is that of signed, in a time that does not depend on where they differ.
func (s Secret) authenticates(signed string, mac []byte) bool {
	return hmac.Equal(mac, s.mac([]byte(signed)))
}

// Format prints REDACTED whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

// MarshalJSON writes "REDACTED".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"REDACTED"`), nil }
