package custody

import (
	"context"
	stded25519 "crypto/ed25519"

	jose "github.com/go-jose/go-jose/v4"
)

// JWKS returns the public keys of all accepted versions as a JSON Web Key Set (RFC 7517 section 5, RFC 8037).
func JWKS(ctx context.Context, keys ...Key) (jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	for _, k := range keys {
		versions, err := k.Versions(ctx)
		if err != nil {
			return jose.JSONWebKeySet{}, err
		}
		for _, v := range versions {
			set.Keys = append(set.Keys, JWK(v))
		}
	}
	return set, nil
}

// JWK returns the public key, for signatures by EdDSA.
func JWK(v Version) jose.JSONWebKey {
	// go-jose knows the standard library's key type, which has the same bytes.
	return jose.JSONWebKey{Key: stded25519.PublicKey(v.Public()), KeyID: v.KeyID(), Algorithm: "EdDSA", Use: "sig"}
}
