package httpsig

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/dunglas/httpsfv"
)

// These are the vectors of RFC 9421. B.2.1 to B.2.3 are RSA's, and cover what is not known here.

const digest = "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"

func bytesOf(text string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return raw
}

var testKey = ed25519.NewKeyFromSeed(bytesOf("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"))

func message(method, target string, fields ...string) *Message {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	m := &Message{Method: method, Target: u, Header: make(http.Header)}
	for i := 0; i < len(fields); i += 2 {
		m.Header.Add(fields[i], fields[i+1])
	}
	return m
}

// testRequest is the request of B.2.
func testRequest() *Message {
	return message("POST", "https://example.com/foo?param=Value&Pet=dog", "Date", "Tue, 20 Apr 2021 02:07:55 GMT",
		"Content-Type", "application/json", "Content-Digest", digest, "Content-Length", "18")
}

func testResponse(status int, length, digest string) *Message {
	m := message("", "", "Date", "Tue, 20 Apr 2021 02:07:56 GMT", "Content-Type", "application/json",
		"Content-Digest", digest, "Content-Length", length)
	return &Message{Status: status, Header: m.Header, Request: testRequest()}
}

var vectorTime = time.Unix(1618884473, 0)

func want(components ...string) Expected {
	return Expected{Components: components, Keys: Keys{"test-key-ed25519": testKey.Public().(ed25519.PublicKey)},
		Now: vectorTime, MaxAge: time.Minute, Skew: time.Second}
}

func TestEd25519Vectors(t *testing.T) {
	b26 := testRequest()
	check.Must(t, Sign(b26, "sig-b26",
		[]string{"date", "@method", "@path", "@authority", "content-type", "content-length"},
		Params{Created: vectorTime, KeyID: "test-key-ed25519"}, testKey))
	if got := b26.Header.Get("Signature-Input"); got != `sig-b26=("date" "@method" "@path" "@authority" `+
		`"content-type" "content-length");created=1618884473;keyid="test-key-ed25519"` {
		t.Error(got)
	}
	if got := b26.Header.Get("Signature"); got != "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9"+
		"EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:" {
		t.Error(got)
	}
	_, err := Verify(b26, want("@method", "date"))
	check.Must(t, err)

	for _, tt := range []struct { // B.4
		name, method, target string
		fields               []string
		ok                   bool
	}{
		{"as sent", "GET", "https://example.org/demo?name1=Value1&Name2=value2",
			[]string{"Accept", "application/json", "Accept", "*/*"}, true},
		{"combined, with more fields", "GET", "https://EXAMPLE.org:443/demo?other=query",
			[]string{"Accept", " application/json, */* ", "Accept-Language", "en"}, true},
		{"in another order", "GET", "https://example.org/demo", []string{"Accept", "*/*", "Accept", "application/json"},
			false},
		{"another method", "POST", "https://example.org/demo", []string{"Accept", "application/json, */*"}, false},
		{"another authority", "GET", "https://example.com/demo", []string{"Accept", "application/json, */*"}, false},
	} {
		m := message(tt.method, tt.target, append(tt.fields, "Signature-Input",
			`transform=("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519"`, "Signature",
			"transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:")...)
		if _, err := Verify(m, want("accept")); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestBaseVectors verifies signatures with other algorithms over our bases.
func TestBaseVectors(t *testing.T) {
	secret, _ := base64.StdEncoding.DecodeString(
		"uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==")
	point := slices.Concat([]byte{4}, bytesOf("qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA"),
		bytesOf("Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0"))
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	check.Must(t, err)
	hmacSHA256 := func(base string, signature []byte) bool {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(base))
		return hmac.Equal(mac.Sum(nil), signature)
	}
	p256 := func(base string, s []byte) bool {
		sum := sha256.Sum256([]byte(base))
		return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(s[:32]),
			new(big.Int).SetBytes(s[32:]))
	}
	for section, tt := range map[string]struct {
		of               *Message
		input, signature string
		verify           func(string, []byte) bool
	}{
		"B.2.5": {testRequest(), `("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`,
			"pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=", hmacSHA256},
		"B.2.4": {testResponse(200, "23",
			"sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:"),
			`("@status" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-ecc-p256"`,
			"wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==", p256},
		"2.4": {testResponse(503, "62",
			"sha-512=:0Y6iCBzGg5rZtoXS95Ijz03mslf6KAMCloESHObfwnHJDbkkWWQz6PhhU9kxsTbARtY2PTBOzq24uJFpHsMuAg==:"),
			`("@status" "content-digest" "content-type" "@authority";req "@method";req "@path";req "content-digest";req)` +
				`;created=1618884479;keyid="test-key-ecc-p256"`,
			"dMT/A/76ehrdBTD/2Xx8QuKV6FoyzEP/I9hdzKN8LQJLNgzU4W767HK05rx1i8meNQQgQPgQp8wq2ive3tV5Ag==", p256},
	} {
		list, err := httpsfv.UnmarshalList([]string{tt.input})
		check.Must(t, err)
		base, err := tt.of.base(list[0].(httpsfv.InnerList))
		signature, _ := base64.StdEncoding.DecodeString(tt.signature)
		if err != nil || !tt.verify(base, signature) {
			t.Errorf("%s: %v\n%s", section, err, base)
		}
	}
}

func TestKeyID(t *testing.T) { // RFC 8037, A.3
	if got := KeyID(bytesOf("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")); got !=
		"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Error(got)
	}
}
