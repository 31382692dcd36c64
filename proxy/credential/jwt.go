package credential

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/files"
)

// Signer signs a message by RS256 (RFC 7518 section 3.3). Its errors have the code custody_unavailable.
type Signer func(ctx context.Context, message []byte) ([]byte, error)

// signJWT signs claims (RFC 7519). id names the key; empty names none.
func signJWT(ctx context.Context, sign Signer, id string, claims map[string]any) (string, error) {
	header := map[string]string{"alg": "RS256", "typ": "JWT"}
	if id != "" {
		header["kid"] = id
	}
	text := ""
	for _, part := range []any{header, claims} {
		raw, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		text += base64.RawURLEncoding.EncodeToString(raw) + "."
	}
	text = text[:len(text)-1]
	signature, err := sign(ctx, []byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// rs256 signs with a key in memory.
func rs256(key *rsa.PrivateKey) Signer {
	return func(_ context.Context, message []byte) ([]byte, error) {
		hash := sha256.Sum256(message)
		signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, hash[:])
		if err != nil {
			return nil, custody.Unavailable(err, "the credential's private key cannot sign")
		}
		return signature, nil
	}
}

// readKeyFile reads the private key in a file, which parse finds in its text.
func readKeyFile[K any](path string, parse func(text string) (K, error)) (key K, err error) {
	text, err := files.ReadSecret(path, 1)
	if err != nil {
		return key, custody.Unavailable(err, "the file %s of the credential cannot be read", path)
	}
	if key, err = parse(text); err != nil {
		return key, custody.Unavailable(err, "%s: %v", path, err)
	}
	return key, nil
}

// parseRSAKey reads an RSA private key of at least 2048 bits from PEM, in PKCS #8 or PKCS #1.
func parseRSAKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
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

// CheckRSAKey refuses what is no RSA private key in PEM that can sign.
func CheckRSAKey(text string) error {
	_, err := parseRSAKey(text)
	return err
}
