package credential

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/files"
)

// GoogleOptions configure the source [Google].
type GoogleOptions struct {
	// KeyFile is the key of a service account, in Google's JSON.
	KeyFile string
	// Scopes are what the token is for.
	Scopes []string
	// TokenURL is Google's token endpoint.
	TokenURL string
	HTTP     http.RoundTripper
	Now      func() time.Time
}

// Google is the source of an access token for a service account, for a JWT that its key signs (RFC 7523).
func Google(o GoogleOptions) Source {
	return Renewed(o.Now, func(ctx context.Context) (Value, error) {
		text, err := files.ReadSecret(o.KeyFile, 1)
		if err != nil {
			return Value{}, custody.Unavailable(err, "the file %s of the credential cannot be read", o.KeyFile)
		}
		key, err := parseGoogleKey(text)
		if err != nil {
			return Value{}, custody.Unavailable(err, "%s: %v", o.KeyFile, err)
		}
		now := o.Now()
		assertion, err := signJWT(key.key, key.ID, map[string]any{"iss": key.Email, "scope": strings.Join(o.Scopes, " "),
			"aud": o.TokenURL, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
		if err != nil {
			return Value{}, err
		}
		token, err := fetchToken(ctx, o.HTTP, o.Now, TokenEndpoint{URL: o.TokenURL}, assertionGrant(assertion))
		v := valueOf(token)
		v.ID = key.Email
		return v, err
	})
}

type googleKey struct {
	Type  string `json:"type"`
	ID    string `json:"private_key_id"`
	PEM   string `json:"private_key"`
	Email string `json:"client_email"`
	key   *rsa.PrivateKey
}

// CheckGoogleKey refuses what is no key of a service account.
func CheckGoogleKey(text string) error {
	_, err := parseGoogleKey(text)
	return err
}

// parseGoogleKey reads the JSON that Google gives for a key. It has more members than these.
func parseGoogleKey(text string) (k googleKey, err error) {
	if err = json.Unmarshal([]byte(text), &k); err != nil || k.Type != "service_account" || k.Email == "" {
		return googleKey{}, errors.New("no key of a service account (JSON with type, client_email and private_key)")
	}
	k.key, err = parseRSAKey([]byte(k.PEM))
	return k, err
}

// parseRSAKey reads an RSA private key of at least 2048 bits from PEM, in PKCS #8 or PKCS #1.
func parseRSAKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("its private key is not in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok || key.N.BitLen() < 2048 {
		return nil, errors.New("its private key is not an RSA key of at least 2048 bits")
	}
	return key, nil
}

// signJWT signs claims by RS256 (RFC 7519). id names the key; empty names none.
func signJWT(key *rsa.PrivateKey, id string, claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		new(jose.SignerOptions).WithType("JWT"))
	if err != nil {
		return "", custody.Unavailable(err, "the credential's private key cannot sign")
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", custody.Unavailable(err, "the credential's private key cannot sign")
	}
	return signed.CompactSerialize()
}
