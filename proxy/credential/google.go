package credential

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
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
		key, err := readKeyFile(o.KeyFile, parseGoogleKey)
		if err != nil {
			return Value{}, err
		}
		now := o.Now()
		assertion, err := signJWT(ctx, rs256(key.key), key.ID, map[string]any{
			"iss": key.Email, "scope": strings.Join(o.Scopes, " "), "aud": o.TokenURL, "iat": now.Unix(),
			"exp": now.Add(time.Hour).Unix()})
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
		return googleKey{}, errors.New("not a service account's key (JSON with type, client_email and private_key)")
	}
	k.key, err = parseRSAKey(k.PEM)
	return k, err
}
