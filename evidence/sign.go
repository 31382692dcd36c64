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

// Key is one version of a signing key, in memory, in Vault or in an HSM.
type Key interface {
	// KeyID returns the kid: "<key name>:v<version>".
	KeyID() string
	// Sign returns 64 bytes of Ed25519 for [Sign], 3,309 of ML-DSA-65 for [Countersign]. It must honour ctx and never
	// sign an empty message.
	Sign(ctx context.Context, message []byte) ([]byte, error)
}

// OwnKey is a [Key] in this process's custody. Sign must return a signature that Public verifies, or an error: it is
// not verified again.
type OwnKey interface {
	Key
	Public() ed25519.PublicKey
}

// Draft is an unsigned artifact that others can already name by its hash.
type Draft[C any] struct {
	typ    string
	key    OwnKey
	claims C
	input  []byte
}

// Prepare refuses claims that [Open] would refuse. Call [Kind.Stamp] on c first.
func Prepare[C any](key OwnKey, k Kind[C], c C) (Draft[C], error) {
	input, err := k.input(key, &c)
	return Draft[C]{typ: k.Typ, key: key, claims: c, input: input}, err
}

// Hash returns [HashToken] of the signed artifact.
func (d Draft[C]) Hash() string { return HashBytes(d.input) }

// Claims returns the claims that Sign will sign.
func (d Draft[C]) Claims() C { return d.claims }

// Sign does not verify the signature: it trusts its [OwnKey].
func (d Draft[C]) Sign(ctx context.Context) (Opened[C], error) {
	token, err := sign(ctx, d.key, d.typ, d.input)
	if err != nil {
		return Opened[C]{}, err
	}
	return Opened[C]{token: token, typ: d.typ, kid: d.key.KeyID(), public: d.key.Public(), claims: &d.claims}, nil
}

// Sign returns c's token. It refuses what [Prepare] refuses.
func Sign[C any](ctx context.Context, key Key, k Kind[C], c C) (string, error) {
	input, err := k.input(key, &c)
	if err != nil {
		return "", err
	}
	return sign(ctx, key, k.Typ, input)
}

func (k Kind[C]) input(key Key, c *C) ([]byte, error) {
	if k.alg != algEdDSA {
		return nil, refusal.New("artifact_malformed", "tokens of type %s never have a public-key signature", k.Typ)
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

// SignShared is [SignMAC] for an artifact that this process passes on. [Judge] verifies it like a received one.
func SignShared[C any](s Secret, k Kind[C], c C) (Opened[C], error) {
	token, err := SignMAC(s, k, c)
	if err != nil {
		return Opened[C]{}, err
	}
	return Opened[C]{token: token, typ: k.Typ, kid: s.id, claims: &c}, nil
}

// SignMAC authenticates c with a secret (HS256). The token is a verifier's note to itself or, for kinds that may be
// shared, an artifact for a verifier with the same secret, which must claim [SharedSecret] custody.
func SignMAC[C any](s Secret, k Kind[C], c C) (string, error) {
	switch {
	case k.alg == algHS256:
	case !k.shared:
		return "", refusal.New("artifact_malformed", "a %s cannot be authenticated with a shared secret", k.Typ)
	case *k.custody(&c) != SharedSecret:
		return "", refusal.New("key_custody",
			"the %s is authenticated with a shared secret, but its keyCustody does not say so", k.Typ)
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
	payload, err := k.codec().Encode(c, 1024)
	if err != nil {
		return nil, err
	}
	return signingInput(head, payload), nil
}

// minSecret is the shortest secret in bytes (RFC 7518 section 3.2).
const minSecret = 32

var errShortSecret = refusal.New("config_malformed", "a shared secret must have at least %d bytes", minSecret)

// secretPrefix begins the kid of every secret. No certified key's kid begins with it.
const secretPrefix = "mac:"

// IsSecretID reports whether kid names a [Secret] and no public key.
func IsSecretID(kid string) bool { return strings.HasPrefix(kid, secretPrefix) }

// SharedSecret is the custody of every shared secret: each verifier of it can also sign.
var SharedSecret = KeyClaims{KeyCustody: "shared_secret", KeyExportable: true}

// Secret is a shared secret of at least 32 bytes. The zero value neither signs nor opens.
type Secret struct {
	id   string
	held func() []byte // a function, because fmt looks behind pointers of unexported fields and ignores their methods
}

// NewSecret copies b. It refuses less than 32 bytes.
func NewSecret(b []byte) (Secret, error) {
	if len(b) < minSecret {
		return Secret{}, errShortSecret
	}
	b = bytes.Clone(b)
	s := Secret{held: func() []byte { return b }}
	// The kid distinguishes secrets across a rotation. As a MAC it reveals nothing.
	s.id = secretPrefix + base64.RawURLEncoding.EncodeToString(s.mac([]byte("kid"))[:9])
	return s, nil
}

// KeyID is derived from the secret and reveals nothing of it.
func (s Secret) KeyID() string { return s.id }

// Check refuses a secret that [NewSecret] did not make.
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

func (s Secret) authenticates(signed string, mac []byte) bool {
	return hmac.Equal(mac, s.mac([]byte(signed)))
}

func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"REDACTED"`), nil }
