package verification_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"

	stded25519 "crypto/ed25519"

	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
)

const rfcPEM = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END " +
	"PUBLIC KEY-----\n"

func TestKey(t *testing.T) {
	key, err := verification.ParseKey(rfcPEM)
	check.Must(t, err)
	if got := key.String(); got != "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a" {
		t.Error(got)
	}
	if got := key.DID(); got != "did:groover:"+sha256Hex(rfcPEM)[:16] {
		t.Error(got)
	}
	if got := key.DIDKey(); got != "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw" {
		t.Error(got)
	}
	same, err := verification.ParseKey(strings.ReplaceAll(strings.TrimSpace(rfcPEM), "\n", "\r\n"))
	if err != nil || same.String() != key.String() || same.DID() != key.DID() {
		t.Errorf("another spelling of the text is another key: %v", err)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	for name, text := range map[string]string{
		"nothing":         "",
		"no PEM":          "key",
		"two keys":        rfcPEM + rfcPEM,
		"text after it":   rfcPEM + "x",
		"another curve":   spki(t, &curve.PublicKey),
		"small order":     spki(t, stded25519.PublicKey(make([]byte, 32))),
		"a certificate":   strings.ReplaceAll(rfcPEM, "PUBLIC KEY", "CERTIFICATE"),
		"with headers":    strings.Replace(rfcPEM, "\n", "\nA: b\n\n", 1),
		"more than it is": rfcPEM + strings.Repeat("\n", 1024),
	} {
		if _, err := verification.ParseKey(text); !is(err, "query_malformed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPossession(t *testing.T) {
	a := newAgent(t)
	nonce, payload := strings.Repeat("ab", 32), "pay|load"
	good := a.sign(nonce + "|" + payload)
	key, err := verification.ParseKey(a.pem)
	check.Must(t, err)
	check.Must(t, key.Possesses(nonce, payload, good))
	for name, err := range map[string]error{
		"another nonce":   key.Possesses(strings.Repeat("ac", 32), payload, good),
		"another payload": key.Possesses(nonce, payload+" ", good),
		"another key's":   key.Possesses(nonce, payload, newAgent(t).sign(nonce+"|"+payload)),
		"no hex":          key.Possesses(nonce, payload, "x"),
		"short":           key.Possesses(nonce, payload, good[:126]),
		"none":            key.Possesses(nonce, payload, ""),
	} {
		if !is(err, "verification_possession") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := key.Possesses(nonce, strings.Repeat("p", 9<<10), good); !is(err, "content_too_large") {
		t.Errorf("a long payload: %v", err)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add(rfcPEM)
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := verification.ParseKey(text); err == nil && len(key.String()) != 64 {
			t.Errorf("%q is the key %s", text, key)
		}
	})
}

func spki(t *testing.T, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	check.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func (a *agent) sign(message string) string {
	return hex.EncodeToString(stded25519.Sign(a.private, []byte(message)))
}

func is(err error, code string) bool { return check.CodeOf(err) == code }
