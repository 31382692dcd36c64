package keyring

import (
	"context"
	stded25519 "crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/signer"
)

// RootKey is the key of the registry or of the auditor. Only the security team's commands use it, on a machine without
// agents.
type RootKey struct {
	version     custody.Version
	postQuantum *postQuantumKey // nil if the root has only an Ed25519 key
	store       keystore.Store  // custody of the key; nil for a key from a file
}

var _ signer.Key = RootKey{}

// KeyID returns the kid of the key.
func (k RootKey) KeyID() string { return k.version.KeyID() }

// Current returns the key's only version.
func (k RootKey) Current(context.Context) (custody.Version, error) { return k.version, nil }

// Properties says that a key from a file can be copied.
func (k RootKey) Properties() custody.Properties {
	return custody.Properties{Exportable: k.store == nil}
}

// Sign signs claims for verifiers that pin the key, which is also the issuer.
func Sign[C any](ctx context.Context, kind evidence.Kind[C], key RootKey, audience string, lifetime time.Duration,
	now func() time.Time, claims C) (string, error) {
	issuer, err := signer.New(kind, key, key.options(signer.Options{
		Issuer: key.KeyID(), Audience: audience, Lifetime: lifetime, Now: now,
	}))
	if err != nil {
		return "", err
	}
	token, _, err := issuer.Sign(ctx, claims)
	return token, err
}

func (k RootKey) options(o signer.Options) signer.Options {
	if k.postQuantum != nil {
		o.Second = k.postQuantum
	}
	return o
}

// Secret returns 32 bytes that only holders of the key know, the same for each of them. purpose keeps the secrets of
// different uses apart. It is the hash of a deterministic Ed25519 signature, which is nowhere else.
func (k RootKey) Secret(ctx context.Context, purpose string) ([]byte, error) {
	signature, err := k.version.Sign(ctx, []byte("actionproof mediator, a secret for "+purpose))
	secret := sha256.Sum256(signature)
	return secret[:], err
}

// Pinned returns the root as verifiers pin it.
func (k RootKey) Pinned(purpose string) evidence.Root {
	r := evidence.Root{KeyID: k.version.KeyID(), Public: k.version.Public(), Purpose: purpose}
	if k.postQuantum != nil {
		r.PostQuantum = k.postQuantum.public
	}
	return r
}

// JWK returns the public file that pins the root: a JWK, or a JWK Set if the root has two keys.
func (k RootKey) JWK() ([]byte, error) {
	if k.postQuantum == nil {
		return json.MarshalIndent(custody.JWK(k.version), "", "  ")
	}
	return json.MarshalIndent(
		keySet{[]any{custody.JWK(k.version), evidence.NewAKP(k.postQuantum.id, k.postQuantum.public)}}, "", "  ")
}

// keySet is a JWK Set (RFC 7517 section 5). The JWK Set of go-jose does not know the key type AKP.
type keySet struct {
	Keys []any `json:"keys"`
}

// privateAKP is the JWK of an ML-DSA-65 private key; priv is the 32-byte seed (RFC 9964).
type privateAKP struct {
	evidence.AKP
	Private string `json:"priv"`
}

type postQuantumKey struct {
	id      string
	public  *mldsa65.PublicKey
	private *mldsa65.PrivateKey
}

var _ evidence.Key = (*postQuantumKey)(nil)

func (k *postQuantumKey) KeyID() string { return k.id }

// Sign makes a hedged signature (FIPS 204 section 3.4).
func (k *postQuantumKey) Sign(_ context.Context, message []byte) ([]byte, error) {
	signature := make([]byte, mldsa65.SignatureSize)
	return signature, mldsa65.SignTo(k.private, message, nil, true, signature)
}

// GenerateRoot makes a root key, with a second, post-quantum key if postQuantum is set. It also returns the private JWK
// or JWK Set.
func GenerateRoot(name string, postQuantum bool) (RootKey, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return RootKey{}, nil, err
	}
	kid := name + ":v1"
	var file any = jose.JSONWebKey{Key: stded25519.PrivateKey(private), KeyID: kid, Algorithm: "EdDSA", Use: "sig"}
	if postQuantum {
		var seed [mldsa65.SeedSize]byte
		_, _ = rand.Read(seed[:]) // never fails; see evidence.NewID
		public, _ := mldsa65.NewKeyFromSeed(&seed)
		file = keySet{[]any{file, privateAKP{evidence.NewAKP(kid, public),
			base64.RawURLEncoding.EncodeToString(seed[:])}}}
	}
	raw, err := json.Marshal(file)
	if err != nil {
		return RootKey{}, nil, err
	}
	key, err := parseRootKey(raw)
	return key, raw, err
}

// MakeRoot makes a root key in two new files: a private one, and the public one that verifiers pin. It returns the kid.
func MakeRoot(name, private, public string, postQuantum bool) (kid string, err error) {
	key, secret, err := GenerateRoot(name, postQuantum)
	if err != nil {
		return "", err
	}
	pinned, err := key.JWK()
	if err != nil {
		return "", err
	}
	if err := files.WriteNew(private, secret, 0o600); err != nil {
		return "", err
	}
	return key.KeyID(), files.WriteNew(public, pinned, 0o644)
}

// ReadRootKey opens a private file of mediator keys root.
func ReadRootKey(path string) (RootKey, error) {
	raw, err := files.Read(path)
	if err != nil {
		return RootKey{}, fmt.Errorf("root key: %w", err)
	}
	k, err := parseRootKey(raw)
	if err != nil {
		return k, fmt.Errorf("root key %s: %w", path, err)
	}
	return k, nil
}

var (
	errRootKey = errors.New("not a private Ed25519 JWK with a kid of the form NAME:v1, alone or in a " +
		"set with a private ML-DSA-65 JWK of the same kid")
	errPostQuantum = errors.New("the second key is not a private ML-DSA-65 JWK with the kid of the first, or its two " +
		"halves do not match")
)

func parseRootKey(raw []byte) (k RootKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return k, errRootKey // the error could quote a private key
	}
	if set.Keys == nil {
		set.Keys = []json.RawMessage{raw}
	}
	if len(set.Keys) > 2 || len(set.Keys) == 0 {
		return k, errRootKey
	}
	if k.version, err = parseEd25519(set.Keys[0]); err != nil || len(set.Keys) == 1 {
		return k, err
	}
	k.postQuantum, err = parseMLDSA(set.Keys[1], k.version.KeyID())
	return k, err
}

func parseEd25519(raw []byte) (custody.Version, error) {
	var jwk jose.JSONWebKey
	if err := json.Unmarshal(raw, &jwk); err != nil {
		return custody.Version{}, errRootKey
	}
	std, ok := jwk.Key.(stded25519.PrivateKey)
	name := evidence.KeyName(jwk.KeyID)
	if !ok || jwk.KeyID != name+":v1" {
		return custody.Version{}, errRootKey
	}
	private := ed25519.NewKeyFromSeed(std.Seed())
	return custody.NewVersion(name, 1, private.Public().(ed25519.PublicKey),
		func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil }), nil
}

func parseMLDSA(raw []byte, kid string) (*postQuantumKey, error) {
	var jwk privateAKP
	if strictjson.Parse(raw, &jwk) != nil || jwk.KeyID != kid {
		return nil, errPostQuantum
	}
	named, err := jwk.Key()
	if err != nil {
		return nil, errPostQuantum
	}
	seed, err := base64.RawURLEncoding.Strict().DecodeString(jwk.Private)
	if err != nil || len(seed) != mldsa65.SeedSize {
		return nil, errPostQuantum
	}
	public, private := mldsa65.NewKeyFromSeed((*[mldsa65.SeedSize]byte)(seed))
	if !public.Equal(named) {
		return nil, errPostQuantum
	}
	return &postQuantumKey{id: kid, public: public, private: private}, nil
}
