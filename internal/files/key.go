package files

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// TakeKey is [ReadKey], but makes a key if there is no file.
func TakeKey(path string) (ed25519.PrivateKey, error) {
	_, made, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		return nil, err
	}
	if err := WriteAbsent(path, pem.EncodeToMemory(&pem.Block{Type: typeKey, Bytes: der})); err != nil {
		return nil, err
	}
	return ReadKey(path)
}

const typeKey = "PRIVATE KEY" // RFC 7468 section 10

// ReadKey reads a private key: Ed25519, PKCS #8, PEM.
func ReadKey(path string) (ed25519.PrivateKey, error) {
	raw, err := Read(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != typeKey {
		return nil, fmt.Errorf("%s is not a PEM block %q", path, typeKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PKCS #8 key", path) // the cause could quote the key
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an Ed25519 key", path)
	}
	return key, nil
}
